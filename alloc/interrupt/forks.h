/* SPDX-License-Identifier: MIT
 *
 * The forks of a thread, as scopes see them: how many are outstanding, and how those are settled whose frames are
 * left. */
#ifndef STI_ALLOC_INTERRUPT_FORKS_H
#define STI_ALLOC_INTERRUPT_FORKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- Forks that only their own thread can run, in their joins: all of a thread that is no worker, and those of a
 * worker that find no slot. They are counted here, so that a scope that returns without joining them fails. In a scope
 * that a jump left frames of, those from before the jump are not missed. Thread of the forks only. */

extern _Thread_local size_t sti_own_forks __attribute__((visibility("hidden")));

/* Outside of all scopes nobody asks for them. */
static inline void sti_own_fork_begin(void)
{
    sti_own_forks += sti_thread_metered != NULL;
}

static inline void sti_own_fork_end(void)
{
    sti_own_forks -= sti_own_forks > 0;
}

/* --- What a thread's forks look like from below. The executor registers this for each of its threads that can fork, so
 * that a scope can settle the forks of frames that are left. Thread of the forks only, but for wake. */

struct sti_way;

struct sti_forks {
    /* How many forks of this thread are outstanding, not joined yet, in whatever unit the executor counts them. Written
     * by this thread only. Those of a scope lie above those that were there when it opened. */
    const size_t *outstanding;

    /* The frames that made all forks above the first kept ones are about to be left by an interrupt, or have returned
     * without joining them. Drop those that nobody has taken, wait for the others; afterwards *outstanding is kept. The
     * task has been interrupted, so those that were taken come to an end, and a stolen subtask that is started now
     * returns at once. Called inside the scope, masked, before its guards run; where the task is preemptible maybe in a
     * signal handler, which then interrupted the task's own code, inline functions of the executor included. Must not
     * fail. A join after all, by code that kept the unwinding from going on, finds them interrupted. */
    void (*settle)(struct sti_forks *forks, size_t kept);

    /* How many forks are outstanding up to the first, from that place on, of a frame that a jump leaves. */
    size_t (*not_left)(struct sti_forks *forks, size_t from, const struct sti_way *way);

    /* There may be something for the thread to collect (subtask.h), be it asleep. Any thread. */
    void (*wake)(struct sti_forks *forks);
};

/* Register for the calling thread, outside of scopes; NULL: no more. The record has to stay until no task is running
 * any more of which this thread ran a stolen subtask: in the pool's memory. 0, ENOMEM, or ENOTSUP
 * (sti_backend_check). */
int sti_forks_register(struct sti_forks *forks);

/* --- For scopes, and wake for any thread --- */

static inline size_t sti_forks_outstanding(struct sti_thread *thread)
{
    const struct sti_forks *forks = atomic_load_explicit(&thread->forks, memory_order_relaxed);
    return forks != NULL ? *forks->outstanding : 0;
}

static inline bool sti_forks_are_left(const struct sti_scope *scope)
{
    return __builtin_expect(sti_forks_outstanding(scope->thread) != scope->forks, 0) ||
           __builtin_expect(sti_own_forks > scope->own_forks, 0);
}

void sti_forks_wake(struct sti_thread *thread);

/* The scope's frames are about to be left: all of them, or those of the way, inside the scope. */
void sti_forks_settle(struct sti_scope *scope, const struct sti_way *way);

#endif
