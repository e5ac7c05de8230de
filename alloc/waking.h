/* SPDX-License-Identifier: MIT
 *
 * Waking: how an interrupt ends the sleep of a task in one of the library's own waits. A sleeping thread makes no sample
 * points, so the watch (watch.h) has it woken when its scope is to be interrupted; then it gives up what it holds of the
 * library's, and makes one. For sleeps that have lasted: registering costs two locks.
 *
 * Thread of the scope; all of it does nothing outside of scopes. */
#ifndef STI_ALLOC_WAKING_H
#define STI_ALLOC_WAKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stint/interrupt.h>

#include "scope_state.h"
#include "thread.h"

struct sti_waking {
    stint_hook hook;
    atomic_bool come; /* the innermost scope is to be interrupted */
    bool covers;
    void (*wake)(void *arg);
    void *arg;
};

/* From now on wake(arg) is called, on the watch's thread, when the innermost scope is to be interrupted; at once if it is
 * already. The record has to stay until the end, after which wake is not running and will not be called. */
void sti_waking_begin(struct sti_waking *waking, void (*wake)(void *arg), void *arg);
void sti_waking_end(struct sti_waking *waking);

/* What wake is there to tell. Acquire. */
static inline bool sti_waking_has_come(const struct sti_waking *waking)
{
    return atomic_load_explicit(&waking->come, memory_order_acquire);
}

/* Whether the innermost scope is to be interrupted now. Looks, and delivers nothing. */
bool sti_waking_is_due(void);

/* After the end, with nothing of the library's held: a sample point, which may not return. True: the task is one that is
 * told to stop (STINT_FAIL), so its wait is over. False: the interrupt has to wait until the task has left what it masks
 * or holds, and so until the wait is over. */
bool sti_waking_deliver(void);

/* Something else is about to run on top of the scopes of this thread, or it sleeps in a wait that wakes it otherwise: until
 * the end no preemption signals are sent for them, which would reach another's system calls or none. The pairs nest. */
void sti_waking_cover_scopes(void);
void sti_waking_uncover_scopes(void);

/* Only where one of them is preemptible. Those below what the innermost one charges have been covered by who runs this one
 * on top of them. True: to be uncovered. */
static inline bool sti_waking_cover(void)
{
    const struct sti_scope *scope = sti_thread_metered != NULL ? sti_thread_metered->scope : NULL;
    while (scope != NULL && !scope->preemptible)
        scope = scope->outer;
    if (__builtin_expect(scope == NULL, 1))
        return false;
    sti_waking_cover_scopes();
    return true;
}

#endif
