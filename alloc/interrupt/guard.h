/* SPDX-License-Identifier: MIT
 *
 * Poisoning mutexes as the guards and the end of a scope see them. Thread of the scope only. */
#ifndef STI_ALLOC_INTERRUPT_GUARD_H
#define STI_ALLOC_INTERRUPT_GUARD_H

struct sti_scope;

/* The scope is interrupted: poison what it holds, before the first guard runs. */
void sti_mutex_poison_all(struct sti_scope *scope);

/* Poison and unlock the newest that the scope holds; it holds one. */
void sti_mutex_abandon_newest(struct sti_scope *scope);

/* The scope ends: poison and unlock all that it still holds. */
void sti_mutex_abandon_all(struct sti_scope *scope);

#endif
