/* SPDX-License-Identifier: MIT
 *
 * The threads of workers: what each is given as it begins, substitutes for those that sleep in the midst of a task, and
 * the sleep of a worker that has nothing to do. */
#ifndef STI_EXECUTOR_WORKER_SUBSTITUTE_H
#define STI_EXECUTOR_WORKER_SUBSTITUTE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/pool.h>

#include "executor/base/state.h"

/* --- Substitute workers. A pool has as many places as workers were asked for, and each thread that runs or looks for
 * tasks holds one. A worker that falls asleep in the midst of a task, in a blocking region or a wait, gives its place
 * up; a substitute takes it. A substitute is a worker like any other, with a deque of its own, but it holds a place
 * only while it stands in for somebody:
 *
 *   (no thread) --start--> PLACED --> as any worker: RUNNING, SEARCHING, PARKED (park.h) --> RETIRED --> PLACED ...
 *                                                                                             |
 *                                                                        (no thread) <-- VACANT
 *
 *   place    by the thread that falls asleep: take a retired substitute, or start one, and set its bit in the lot as if
 *            it had parked. So it is woken by the same rule as the others: only when there is work, and nobody looks
 *            for it.
 *   retire   a substitute that is between two tasks, and sees that more threads hold a place than there are places,
 *            sleeps on its event without a bit: nobody wakes it but through a new place. Or, while it is parked, the
 *            thread that comes back takes its bit away: it does not even notice.
 *
 *   vacate   one that has been retired for a second takes itself off the list, under the lock, and its thread ends:
 *            with it go its stack, its heaps and what they keep. Its slot, with its deque and its numbers, is the next
 *            that is started, when that thread has ended. One that keeps heaps of tasks that go on stays.
 *
 * A handshake by fences (alloc/platform/thread.h): a thread that comes back counts itself active, and then looks for
 * parked substitutes; a substitute sets its bit, and then looks whether it is one too many.
 *
 * A thread that comes back does not wait for its place: it may hold a lock that the others need. So for as long as the
 * present task of a substitute lasts, one more may run than there are places; but none is begun meanwhile.
 *
 * active counts the threads that hold a place, those that are parked too. It and the retired substitutes are under the
 * lock, but for a substitute's look whether it is one too many, and whether that still matters (relaxed: it looks again
 * under the lock), and for the look whether all sleep (deadlock.h). The lock is held for a few instructions, but for
 * the start of a thread. slots is how many workers and substitutes there have ever been, for all who look through the
 * workers: it grows before the new one can do anything (release), and who passes a fence after that one's first push
 * sees it.
 *
 * The end. When the first worker leaves, nothing is queued any more, nor will be: all who are retired are woken to
 * leave too, and nobody retires after that.
 *
 * In the child of a fork(2) no thread is a worker: nothing here is called. */

struct sti_worker;

/* All zeros before. */
void sti_substitutes_init(struct sti_substitutes *substitutes, unsigned workers, unsigned max);
void sti_substitutes_end(struct sti_substitutes *substitutes);

/* The worker's task will not end: have another take its place, as if it had fallen asleep; and, on its own thread, it
 * has ended after all. True: every place is taken now. Pairs nest: the outermost counts. The first: any thread, while
 * the worker runs. */
bool sti_substitute_replace(struct sti_worker *worker);
void sti_substitute_return(struct sti_worker *worker);

/* From now on no thread is started, and when this returns none is being started. */
void sti_substitute_begin_no_more(stint_pool *pool);

/* If this is a substitute that has retired, have it look around once. Any thread. */
void sti_substitute_rouse(struct sti_worker *worker);

/* The functions below: by the worker's own thread. */

/* The worker falls asleep in the midst of a task, so many times; and it is awake again. The pairs nest; the outermost
 * counts. True: now all of the pool's threads sleep. */
bool sti_substitute_fall_asleep(struct sti_worker *worker, unsigned times);
void sti_substitute_awake(struct sti_worker *worker, unsigned times);

/* It runs a task on top of one that may sleep: awake for that time, and then as deep asleep as before. */
static inline unsigned sti_substitute_interrupt_sleep(struct sti_worker *worker)
{
    unsigned depth = worker->asleep;
    if (depth > 0)
        sti_substitute_awake(worker, depth);
    return depth;
}

static inline void sti_substitute_resume_sleep(struct sti_worker *worker, unsigned depth)
{
    if (depth > 0)
        sti_substitute_fall_asleep(worker, depth);
}

/* A substitute that is one too many. */
bool sti_substitute_is_surplus(const struct sti_worker *worker);

/* The next three: false: it is a substitute that has stood aside for long, and its thread is to end now.
 *
 * Between two tasks: if the worker is a substitute and one too many, sleep until it is needed. */
bool sti_substitute_stand_aside(struct sti_worker *worker);

/* A substitute's thread begins: sleep until it is needed. */
bool sti_substitute_begin(struct sti_worker *worker);

/* Sleep until it is called once more than that. */
bool sti_substitute_sleep(struct sti_worker *worker, uint32_t calls);

/* The worker leaves. */
void sti_substitute_leave(struct sti_worker *worker);

/* --- Sleeping until something has come, wherever a thread may be. --- */

/* What has lasted so long may last: only then does it pay to have the sleep ended by an interrupt
 * (alloc/interrupt/hook.h), and to look whether it ever can end (deadlock.h). So this is how late an interrupt may
 * be. */
#define STI_SHORT_SLEEP_NS UINT64_C(10000000)

/* Sleep until it has come, of which the event is signalled: 0; or until the deadline (STI_NEVER: none): ETIMEDOUT.
 * EINTR: an interrupt of the calling task has come; it does not end an uninterruptible wait. A worker gives its place
 * up meanwhile. Any thread. */
int sti_sleep(sti_event *event, bool (*has_come)(const void *arg), const void *arg, uint64_t deadline_ns,
              bool uninterruptible);

/* --- The sleep of a worker that has nothing to do. It ends when the worker is called. When it has lasted for a tenth
 * of a second, and whenever somebody needs memory, the worker gives back what it has and does not use
 * (alloc/meter/global.h); and again every 0.4 s as long as others may free what its tasks have left: only this thread
 * can give that back.
 *
 *   caller  calls + 1 (release), signal the event (park.c)
 *   asker   idle? then asked = true (seq_cst), signal the event; idle (seq_cst)? no: take asked back
 *   worker  idle = true; value of the event (acquire); calls as before, and not asked? then wait for another value
 *           idle = false (seq_cst); take asked (seq_cst)
 *
 * A signal that comes after the value was read ends the wait at once; of one that came before, the worker sees what was
 * stored before it. Between a worker that is called just as it is asked and the thread that asks there is a handshake
 * (alloc/platform/thread.h); the one that takes asked, by an exchange, answers for the worker. */

/* How often the worker has been called so far. To be read before anybody can know that it is going to sleep. Its own
 * thread. */
uint32_t sti_idle_calls(const struct sti_worker *worker);

/* Sleep until it is called once more than that: true; or until then (STI_NEVER). Its own thread. */
bool sti_idle_sleep(struct sti_worker *worker, uint32_t calls, uint64_t until);

/* If it is idle, have it give back. Any thread, while its pool is there. */
void sti_idle_ask(struct sti_worker *worker);

/* --- A thread that becomes a worker's. By that thread. --- */

/* Name it, find its stack, have somebody to lend its place to, and make it sti_worker_own. Once, before all else;
 * sti_worker_main takes it back. */
void sti_worker_begin(struct sti_worker *worker);

/* Whether this much of the thread's stack is left; false on any other stack. */
bool sti_worker_has_stack(const struct sti_worker *worker, size_t size);

#endif
