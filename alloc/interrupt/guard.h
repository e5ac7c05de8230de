/* SPDX-License-Identifier: MIT
 *
 * Guards as the ends of scopes and of frames see them, and the poisoning of mutexes that goes with them. Thread of the
 * scope only. */
#ifndef STI_ALLOC_INTERRUPT_GUARD_H
#define STI_ALLOC_INTERRUPT_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/interrupt.h>

struct sti_scope;
struct sti_way;

/* Run the innermost scope's guards, newest first, masked: all of them, or those that lie below an address of the
 * stack. */
void sti_guard_run_all(struct sti_scope *scope);
void sti_guard_run_below(struct sti_scope *scope, uintptr_t address);

/* Run those of frames that a jump leaves, masked. */
void sti_guard_leave(struct sti_scope *scope, const struct sti_way *way);

/* The scope is interrupted: poison what it holds, before the first guard runs. */
void sti_mutex_poison_all(struct sti_scope *scope);

/* Poison and unlock the newest that the scope holds; it holds one. */
void sti_mutex_abandon_newest(struct sti_scope *scope);

/* The scope ends: poison and unlock all that it still holds. */
void sti_mutex_abandon_all(struct sti_scope *scope);

#endif
