/* SPDX-License-Identifier: MIT
 *
 * How an interrupt reaches a thread that makes no sample points: it calls the hooks of the scope, and wakes a sleep in
 * one of the library's own waits. Blocking regions say that such a sleep is near. Thread of the scope, but for what the
 * watch calls. */
#ifndef STI_ALLOC_INTERRUPT_HOOK_H
#define STI_ALLOC_INTERRUPT_HOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/interrupt.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- Interrupt hooks from the inside, and the watch of a scope. Thread of the scope only. --- */

struct sti_scope;

/* Have the watch look after the scope until it ends. 0 or an errno value. */
int sti_hook_watch_scope(struct sti_scope *scope);

/* The scope is being watched; a token may have been set just before. */
void sti_hook_wake_if_flagged(const struct sti_scope *scope);

/* Call the hooks, each once, of the tripped scopes and of those inside them; masked. */
void sti_hook_fire(struct sti_scope *innermost);

/* The frames that the scope's hooks lie on are about to go: none of them runs any more after this. */
void sti_hook_drop(struct sti_scope *scope);

/* Those that lie in frames which a jump leaves. */
struct sti_way;
void sti_hook_leave(struct sti_scope *scope, const struct sti_way *way);

/* --- Waking: how an interrupt ends the sleep of a task in one of the library's own waits. A sleeping thread makes no
 * sample points, so the watch (watch.h) has it woken when its scope is to be interrupted; then it gives up what it
 * holds of the library's, and makes one. For sleeps that have lasted: registering costs two locks.
 *
 * Thread of the scope; all of it does nothing outside of scopes. */

struct sti_waking {
    stint_hook hook;
    atomic_bool come; /* the innermost scope is to be interrupted */
    bool suppresses;
    void (*wake)(void *arg);
    void *arg;
};

/* From now on wake(arg) is called, on the watch's thread, when the innermost scope is to be interrupted; at once if it
 * is already. The record has to stay until the end, after which wake is not running and will not be called. */
void sti_waking_begin(struct sti_waking *waking, void (*wake)(void *arg), void *arg);
void sti_waking_end(struct sti_waking *waking);

/* What wake is there to tell. Acquire. */
static inline bool sti_waking_has_come(const struct sti_waking *waking)
{
    return atomic_load_explicit(&waking->come, memory_order_acquire);
}

/* Whether the innermost scope is to be interrupted now. Looks, and delivers nothing. */
bool sti_waking_is_due(void);

/* After the end, with nothing of the library's held: a sample point, which may not return. True: the task is one that
 * is told to stop (STINT_FAIL), so its wait is over. False: the interrupt has to wait until the task has left what it
 * masks or holds, and so until the wait is over. */
bool sti_waking_deliver(void);

/* Something else is about to run on top of the scopes of this thread, or it sleeps in a wait that wakes it otherwise:
 * until the end no preemption signals are sent for them, which would reach another's system calls or none. The pairs
 * nest. */
void sti_waking_suppress_scopes(void);
void sti_waking_restore_scopes(void);

/* Only where one of them is preemptible. Those below what the innermost one charges have been suppressed by what runs
 * this one on top of them. True: to be restored. */
static inline bool sti_waking_suppress(void)
{
    const struct sti_scope *scope = sti_scope_metered();
    while (scope != NULL && !scope->preemptible)
        scope = scope->outer;
    if (__builtin_expect(scope == NULL, 1))
        return false;
    sti_waking_suppress_scopes();
    return true;
}

/* --- Blocking regions from the inside. They are counted in their scope, which closes those that it leaves open; what
 * is done about them is the business of whoever lends the thread to its tasks. Calling thread only. */

/* Told of each scope's first region when it begins, and of its last one's end. */
struct sti_lender {
    void (*falls_asleep)(void);
    void (*is_awake)(void);
};

/* Who lends the calling thread; NULL: nobody. */
void sti_blocking_set_lender(const struct sti_lender *lender);

/* A region of the library's own, around a wait: its end is no sample point. True: it was the scope's last. */
void sti_blocking_sleep(void);
bool sti_blocking_awake(void);

/* The scope ends with regions open. */
void sti_blocking_close(struct sti_scope *scope);

#endif
