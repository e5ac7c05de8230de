/* SPDX-License-Identifier: MIT
 *
 * Guards as the ends of scopes and of frames see them, and the poisoning of mutexes that goes with them. Thread of the
 * scope only. */
#ifndef STI_ALLOC_INTERRUPT_GUARD_H
#define STI_ALLOC_INTERRUPT_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/guard.h>

struct sti_scope;
struct sti_way;

/* --- What frames have pushed on a list of their scope's, the newest first: guards; and hooks, with the watch's lock.
 * What was pushed is what lies there, or its frame has gone without a word (setcontext, a longjmp of libc's own), and
 * is used by others. Then so have all that it would lead to: they are lost, but nothing is called that was not pushed.
 * Each of these functions ends the list there. */

void sti_pushed_add(stint_guard **list, stint_guard *pushed);

/* *link; NULL: there is none. */
stint_guard *sti_pushed_at(const struct sti_scope *scope, stint_guard **link);

/* False: it is none of those that lie below an address of the stack. */
bool sti_pushed_take_off(const struct sti_scope *scope, stint_guard **list, const stint_guard *pushed, uintptr_t end);

/* The newest of those in frames that a jump leaves is taken off; NULL: there are no more. Others, on a stack that the
 * task switched from, stay. */
stint_guard *sti_pushed_take_left(const struct sti_scope *scope, stint_guard **list, const struct sti_way *way);

/* --- Guards. */

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
