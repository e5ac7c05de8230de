/* SPDX-License-Identifier: MIT
 *
 * The state of a subtask that has been shared; before that it has none.
 *
 *   SHARED ----> a worker's address ----> ENDED
 *
 *   SHARED   by its owner, before the place becomes public (split.c).
 *   address  by the thief, once it has the subtask: only so that the owner knows whom to steal from while it waits.
 *            Relaxed.
 *   ENDED    by the thief, after it has written value, code and interrupted. Release: the owner, who waits for it
 *            (acquire), reads them and all that the subtask wrote. From then on the subtask may be gone. */
#ifndef STI_EXECUTOR_SUBTASK_H
#define STI_EXECUTOR_SUBTASK_H

#include <stdatomic.h>
#include <stint/fork.h>

#define STI_SUBTASK_SHARED ((uintptr_t)0)
#define STI_SUBTASK_ENDED ((uintptr_t)1)

/* The field is one of a header that C++ includes too, which has no _Atomic. */
#define sti_subtask_state(subtask, order) __atomic_load_n(&(subtask)->state, (order))
#define sti_subtask_set_state(subtask, value, order) __atomic_store_n(&(subtask)->state, (value), (order))

#endif
