/* SPDX-License-Identifier: MIT
 *
 * Forks that only their own thread can run, in their joins: all of a thread that is no worker, and those of a worker
 * that find no slot. The executor notes them down here, with the frames that made them, so that it is known which are
 * left: by a jump, or by a scope that returns without joining them. Thread of the forks only. */
#ifndef STI_ALLOC_INTERRUPT_OWN_FORKS_H
#define STI_ALLOC_INTERRUPT_OWN_FORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_scope;
struct sti_way;

#define STI_OWN_FORK_UNNOTED SIZE_MAX

/* The places of those that have not been joined end here. */
extern _Thread_local size_t sti_own_forks __attribute__((visibility("hidden")));

/* Note one down: a plain one by its subtask, a typed one by the end of the stack of whoever makes it. Its place among
 * them; STI_OWN_FORK_UNNOTED outside of all scopes, where nobody asks for it, and out of memory. */
size_t sti_own_fork_note_plain(const void *subtask);
size_t sti_own_fork_note_typed(uintptr_t stack_pointer);

/* It is joined. False: it was left and is settled, or is no fork of this thread's. */
bool sti_own_fork_take_plain(size_t place, const void *subtask);
bool sti_own_fork_take_typed(size_t place);

/* Drop those of the scope; or of the frames that a jump leaves inside it. */
void sti_own_forks_settle(const struct sti_scope *scope);
void sti_own_forks_leave(const struct sti_scope *scope, const struct sti_way *way);

/* The thread ends. */
void sti_own_forks_end_thread(void);

#endif
