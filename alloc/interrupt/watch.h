/* SPDX-License-Identifier: MIT
 *
 * The watch: the one thread of the process that acts at a time. And when a running task has to be looked at: its
 * deadline, and its limit of processor time. */
#ifndef STI_ALLOC_INTERRUPT_WATCH_H
#define STI_ALLOC_INTERRUPT_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/platform/scope_state.h"

/* --- The watch: one thread for the process that looks at what no running code looks at: a task that sleeps in a system
 * call or loops without allocating, and a token that somebody polls. It is started at the first need, sleeps until the
 * next deadline or until a token is set, and costs nothing to tasks that ask for none of this.
 *
 * Protocol. A watch is on the list, under the lock, from begin to end. Setting a token is a handshake (thread.h):
 *
 *   setter:     store flag (seq_cst)  ... load count of watches (seq_cst), if not 0 tell each of them
 *   registrant: add 1 to count (seq_cst) ... load flags (seq_cst), if set sti_watch_wake
 *
 * To tell one is to do at once what can be done at once (hook.c); if it says that there is more, or if the lock is not
 * free, the semaphore is posted. The setter's half is safe in a signal handler: the lock is only tried there. Watches
 * that only want to be looked at in time are not counted.
 *
 * Changing what look reads, with a lock of its owner's around the change as around what look does:
 *
 *   changer:  change ... load next_look, if that is later than wanted post the semaphore
 *   thread:   next_look = NEVER ... look ... next_look = what came of it ... sleep until then
 *
 * If look came before the change, the changer finds NEVER there, and posts, or what came of it, and compares. */

#define STI_WATCH_NEVER UINT64_MAX
#define STI_WATCH_AGAIN 0

/* Put a watch on the list, with look set; it wants to be looked at by that time. 0 or an errno value: the thread could
 * not be started. Any thread, not in signal handlers. */
int sti_watch_begin(struct sti_watch *watch, uint64_t time);

/* Take it off, after the end of a user function that runs for it. Nothing if it is not on the list; its link must be
 * NULL from the start. */
void sti_watch_end(struct sti_watch *watch);

/* The list's lock, to change what look reads. */
void sti_watch_lock(void);
void sti_watch_unlock(void);

/* With the lock: give it up, call function(arg), take it again. */
void sti_watch_call(struct sti_watch *watch, void (*function)(void *arg), void *arg);

/* With the lock: wait until no user function runs for the watch. */
void sti_watch_await_calls(const struct sti_watch *watch);

/* A watch that is on the list wants to be looked at by this time, if that is earlier than before. What look reads has
 * been changed already. Any thread, also in signal handlers; a comparison when the thread looks by then anyway. */
void sti_watch_hasten(uint64_t time);

/* What tokens are something to has to be told of one, or of something like it: do so, and have the thread look at what
 * is left. Safe in signal handlers; next to nothing when nobody is watched. */
void sti_watch_wake(void);

/* The main thread is about to end: from now on the watch looks often whether it is alone, and ends then. */
void sti_watch_main_thread_ends(void);

/* --- When a running task has to be looked at. A task that allocates looks at the clock in its sample points; one that
 * allocates rarely would do so late. So a thread whose scopes have limits of time publishes when the next of these is
 * due, and the watch requests a sample of it then: its next allocation is a sample point, which reads the exact clock.
 * That the watch looks in time is a handshake, too:
 *
 *   thread:  next_deadline = time (seq_cst) ... load next_look (watch.h), post the semaphore if that is later
 *   watch:   next_look = NEVER (seq_cst) ... load next_deadline (seq_cst); passed: next_deadline = HAS_COME, limit = 0
 *
 * HAS_COME and the 0 are the flag and the 0 of a request for a sample (thread.h), all seq_cst: where the thread's new
 * limit overwrites the 0, its look at next_deadline finds HAS_COME.
 *
 * Thread of the scope. */

struct sti_scope;
struct sti_thread;

#define STI_DEADLINE_NEVER UINT64_MAX
#define STI_DEADLINE_HAS_COME UINT64_C(0) /* since it was set: what was due has come */

/* A scope with a limit of time has opened. */
void sti_next_deadline_begin(struct sti_thread *thread, const struct sti_scope *scope);

/* What is due has changed: it has passed without effect, or the innermost scope is this one now (NULL: none). */
void sti_next_deadline_renew(struct sti_thread *thread, const struct sti_scope *scope);

/* Whether a sample has been requested of the thread since. */
bool sti_next_deadline_has_come(const struct sti_thread *thread);

/* The time: exact after such a request, otherwise the cheap clock's. */
uint64_t sti_next_deadline_clock(const struct sti_thread *thread);

/* --- The limit on processor time. To read a thread's processor time is a system call, so it is read as rarely as can
 * be: it never grows faster than the clock, so a limit of which so much is left cannot be reached before so much time
 * has passed. Thread of the scope, but for what the watch asks. */

/* The scope, whose below and outer are set, begins and ends. The end returns what was used; 0: not measured. */
void sti_cpu_begin(struct sti_scope *scope, uint64_t limit, uint64_t now);
uint64_t sti_cpu_end(struct sti_scope *scope);

/* What has been used until now. */
uint64_t sti_cpu_used(const struct sti_scope *scope);

/* Whether the limit has been reached, by this time; otherwise look is later than it. */
bool sti_cpu_is_exhausted(struct sti_scope *scope, uint64_t now);

/* For the watch: when the limit is reached at the earliest, or a time that has passed. UINT64_MAX: there is none. */
uint64_t sti_cpu_watch(const struct sti_scope *scope, uint64_t now);

/* --- Limits that are changed while the task runs: platform/limits.h. --- */

/* Have its thread for running tasks and warnings, at least. 0 or an errno value. Any thread, not in signal handlers. */
int sti_watch_have(void);

/* For the watch: the deadline that the scope has now. */
uint64_t sti_deadline_watch(const struct sti_scope *scope);

/* Somebody has changed them: the scope goes by those of time from now on. Thread of the scope, in a sample point, also
 * in a signal handler. */
void sti_deadline_take_limits(struct sti_scope *scope, const struct sti_scope *innermost);

/* Change them. 0; EALREADY: the task has been stopped already. Any thread, not in signal handlers. */
int sti_limits_change(struct sti_limits *limits, const stint_budget *budget);

/* At start. */
void sti_watch_start(void);

/* Around a fork(2): before it, and in the child. */
void sti_cpu_before_fork(void);
void sti_cpu_in_child(void);
void sti_watch_in_child(void);

#endif
