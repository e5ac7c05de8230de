/* SPDX-License-Identifier: MIT
 *
 * The watch: one thread for the process that looks at what no running code looks at: a task that sleeps in a system call
 * or loops without allocating, and a token that somebody polls. It is started at the first need, sleeps until the next
 * deadline or until a token is set, and costs nothing to tasks that ask for none of this.
 *
 * Protocol. A watch is on the list, under the lock, from begin to end. Setting a token:
 *
 *   setter:     store flag (seq_cst)  ... load count of watches (seq_cst), if not 0 post the semaphore
 *   registrant: add 1 to count (seq_cst) ... load flags (seq_cst), if set sti_watch_wake
 *
 * One of the two sees the other. The setter's half is safe in a signal handler. Watches that only want to be looked at in
 * time are not counted.
 *
 * Changing what look reads, with a lock of its owner's around the change as around what look does:
 *
 *   changer:  change ... load next_look, if that is later than wanted post the semaphore
 *   thread:   next_look = NEVER ... look ... next_look = what came of it ... sleep until then
 *
 * If look came before the change, the changer finds NEVER there, and posts, or what came of it, and compares. */
#ifndef STI_ALLOC_WATCH_H
#define STI_ALLOC_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct sti_watch;

#define STI_WATCH_NEVER UINT64_MAX
#define STI_WATCH_AGAIN 0

/* Called by the watch thread, under its lock, whenever something may have changed and when the time it returned last has
 * come (by sti_clock_now). Returns the next such time; STI_WATCH_NEVER; or STI_WATCH_AGAIN when it gave up the lock
 * meanwhile (sti_watch_call), so that the list may have changed. */
typedef uint64_t sti_watch_look_fn(struct sti_watch *watch, uint64_t now);

struct sti_watch {
    struct sti_watch *next;
    struct sti_watch **link; /* NULL: not on the list */
    sti_watch_look_fn *look;
    bool only_time; /* tokens are nothing to it */
    unsigned calls; /* of user functions for this watch that are running now */
};

/* Put a watch on the list, with look set; it wants to be looked at by that time. 0 or an errno value: the thread could
 * not be started. Any thread, not in signal handlers. */
int sti_watch_begin(struct sti_watch *watch, uint64_t time);

/* Take it off, after the end of a user function that runs for it. Nothing if it is not on the list; its link must be NULL
 * from the start. */
void sti_watch_end(struct sti_watch *watch);

/* The list's lock, to change what look reads. */
void sti_watch_lock(void);
void sti_watch_unlock(void);

/* With the lock: give it up, call function(arg), take it again. */
void sti_watch_call(struct sti_watch *watch, void (*function)(void *arg), void *arg);

/* With the lock: wait until no user function runs for the watch. */
void sti_watch_await_calls(const struct sti_watch *watch);

/* A watch that is on the list wants to be looked at by this time, if that is earlier than before. What look reads has been
 * changed already. Any thread, not in signal handlers; a comparison when the thread looks by then anyway. */
void sti_watch_hasten(uint64_t time);

/* Let the thread look at everything now. Safe in signal handlers; next to nothing when nobody is watched. */
void sti_watch_wake(void);

#endif
