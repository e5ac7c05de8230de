/* SPDX-License-Identifier: MIT
 *
 * What frames have pushed on a list of their scope's, the newest first: guards; and hooks, with the watch's lock.
 * What was pushed is what lies there, or its frame has gone without a word (setcontext, a longjmp of libc's own), and
 * is used by others. Then so have all that it would lead to: they are lost, but nothing is called that was not pushed.
 * Each of these functions ends the list there. */
#ifndef STI_ALLOC_INTERRUPT_PUSHED_H
#define STI_ALLOC_INTERRUPT_PUSHED_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/interrupt.h>

struct sti_scope;
struct sti_way;

/* What its check_ is while it is on a list. Reads whatever lies there now, a sanitizer's red zones too. */
__attribute__((no_sanitize("address"))) static inline uintptr_t sti_pushed_check(const stint_guard *pushed)
{
    const uintptr_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uintptr_t sum = ((uintptr_t)pushed ^ (uintptr_t)pushed->order_ ^ (uintptr_t)pushed->function_ << 16) * odd;
    return (sum ^ (uintptr_t)pushed->arg_ ^ (uintptr_t)pushed->below_ << 16) * odd;
}

void sti_pushed_add(stint_guard **list, stint_guard *pushed);

/* *link; NULL: there is none. */
stint_guard *sti_pushed_at(const struct sti_scope *scope, stint_guard **link);

/* False: it is none of those that lie below an address of the stack. */
bool sti_pushed_take_off(const struct sti_scope *scope, stint_guard **list, const stint_guard *pushed, uintptr_t end);

/* The newest of those in frames that a jump leaves is taken off; NULL: there are no more. Others, on a stack that the
 * task switched from, stay. */
stint_guard *sti_pushed_take_left(const struct sti_scope *scope, stint_guard **list, const struct sti_way *way);

#endif
