/* SPDX-License-Identifier: MIT
 *
 * The future: the one place where a task's outcome appears. Each task's future resolves exactly once, whatever happens
 * to the task or its pool. It is waited for, followed by a callback, combined with others, read from a descriptor
 * (completion queues), or counted with a group.
 *
 *     #include <stdio.h>
 *     #include <stint/pool.h>
 *
 *     static int answer(void *unused, void **value)
 *     {
 *         static int number = 42;
 *         (void)unused;
 *         *value = &number;
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         stint_pool *pool;
 *         stint_future *future;
 *         stint_outcome outcome;
 *         if (stint_pool_create(NULL, &pool) != 0)
 *             return 1;
 *         if (stint_submit(pool, answer, NULL, NULL, &future) == 0) {
 *             if (stint_future_wait(future, &outcome) == 0)
 *                 printf("%d\n", *(int *)outcome.value);
 *             stint_future_release(future);
 *         }
 *         return stint_pool_destroy(pool);
 *     } */
#ifndef STINT_FUTURE_H
#define STINT_FUTURE_H

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

typedef struct stint_future stint_future;
typedef struct stint_pool stint_pool; /* pool.h */

/* Whether the future has resolved. False for NULL. Never blocks. Any thread. */
STINT_API bool stint_future_is_ready(const stint_future *future);

/* Wait until the future has resolved, and copy the outcome (outcome may be NULL). May be called again, and from several
 * threads: each gets the same outcome, and the value in it has one owner, to be agreed among them.
 *
 * Inside a task of the same pool, an awaited task that has not started is run right here, in a scope of its own, as
 * long as half the stack is free. Otherwise the calling task sleeps, and a substitute worker takes its place
 * (stint_pool_options.substitutes).
 *
 * A wait that succeeds is a sample point, so in STINT_JUMP it may not return. So is a wait that sleeps when an
 * interrupt comes (a deadline, a cancellation, the end of the pool): it is delivered some ten milliseconds later at
 * most. An interrupt that is deferred, by a mask or a lock, is so until the future has resolved; and a task that is run
 * right here is not cut short.
 *
 * 0. EINVAL: future is NULL.
 * EDEADLK: the future cannot resolve before the wait ends. A task waits for itself, a subtask for its task, a task for
 *   one on whose behalf it is run; or tasks wait for each other in a circle, in whatever pools and none of them with a
 *   time-out: then one of them is told, some ten milliseconds after the last has fallen asleep. Also in a callback,
 *   where the future has not resolved.
 * ECANCELED: the calling task, in STINT_FAIL, is to stop.
 * EAGAIN: every thread of the pool waits, no substitute is left, nobody has begun the awaited task, and an eighth of
 *   this thread's stack is all that is left; or the awaited task was delayed (later.h), and there is no slot for it
 *   in the queue; or it lies in the queue of another pool, whose threads all wait, too, and in the end for this one's.
 *   Try again later.
 * Any thread. */
STINT_API int stint_future_wait(stint_future *future, stint_outcome *outcome);

/* The same, for at most timeout_ns nanoseconds (0: just look). An awaited task is never run here.
 *
 * As stint_future_wait; ETIMEDOUT: it has not resolved yet, and *outcome is as it was; EAGAIN: timeout_ns is
 * STINT_FOREVER, every thread of the pool waits, and nobody has begun the awaited task. Any thread. */
STINT_API int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome);

/* What is called when a future has resolved. The future need not have been retained: it is valid during the call, and
 * may be released in it. */
typedef void stint_callback_fn(stint_future *future, const stint_outcome *outcome, void *arg);

/* Have callback(future, outcome, arg) called once, when the future has resolved.
 *
 * Where: on the thread that resolves the future, at that moment. That is the worker that ran the task, perhaps in the
 * midst of another task that waits for it. For a task that never starts it is the thread that ends it: the caller of
 * stint_future_cancel or of stint_pool_shutdown, a worker, or, when its deadline passes while it is queued, one thread
 * that its pool has for all of those. If the future has resolved already, the callback is called right here, before
 * stint_future_then returns; unless a thread is in the midst of an earlier callback of this future: then that thread
 * calls it next. In each case it is in no task's scope, even if the thread is in the midst of a task: what it allocates
 * comes from the process's heap and is charged to no task, and no interrupt reaches it.
 *
 * Order: the callbacks of one future are called one after the other, in the order in which they were given. Waiters may
 * have returned before. A callback that becomes due during another one on the same thread is called when that has
 * returned. When stint_pool_destroy has returned, so have all callbacks of its pool's tasks that were given before.
 *
 * What it may do: all that does not block. It should be short, as its thread does nothing else meanwhile: submit a
 * longer piece of work as a task. In it, a wait for a future that has not resolved, and a shutdown or destruction of
 * any pool, return EDEADLK. It must return (stint.h).
 *
 * 0; EINVAL: future or callback is NULL; ENOMEM (callback will not be called). Any thread. */
STINT_API int stint_future_then(stint_future *future, stint_callback_fn *callback, void *arg);

/* The record of a callback that can be taken back, in the caller's memory. Its fields are the library's. */
typedef struct stint_continuation {
    void *fields_[4];
    stint_callback_fn *callback_;
    void *arg_;
} stint_continuation;

/* As stint_future_then, but with a record of the caller's: so it needs no memory, and can be taken back. The record
 * must stay until the callback begins, in which it may be freed or used again; or until it has been taken back.
 *
 * 0; EINVAL: an argument other than arg is NULL. Any thread, also in callbacks. */
STINT_API int stint_future_add_continuation(stint_future *future, stint_continuation *continuation,
                                            stint_callback_fn *callback, void *arg);

/* Take back what was given to stint_future_add_continuation for this future, which must not have been released. It
 * takes the same time however many others there are. A loop that waits for a future of its own and for one that
 * outlives the loop takes the callback on the latter back at the end of each turn. After C++'s stop_callback, whose
 * destructor also waits; this never does.
 *
 * 0: the callback will not be called; EBUSY: it has begun, and has not returned; EALREADY: it has returned;
 * EINVAL: an argument is NULL, or the record was last given for another future. Any thread, also in callbacks. */
STINT_API int stint_future_remove_continuation(stint_future *future, stint_continuation *continuation);

/* Make *all a compound future, which resolves when all of these have: Ok, with no value, if all of them are; otherwise
 * with the status, reason and error of the first in the array that is not. It does not resolve before the last one has:
 * then none of their tasks runs any more. In its usage, allocated, samples, deferred and kept are the sums;
 * peak, wall_ns and queued_ns are the greatest. With a count of 0 it is Ok at once.
 *
 * The members may be released afterwards; they may be compound futures too. stint_future_cancel of the compound cancels
 * each member; it resolves when they have. A task that waits for it runs those members that have not started (of
 * when_any: none). *all is the caller's, to be released, and NULL after any error.
 *
 * 0; EINVAL: all is NULL, or futures is with a count above 0, or one of them is; ENOMEM. Any thread. */
STINT_API int stint_when_all(stint_future *const *futures, size_t count, stint_future **all);

/* The same for the first of them that resolves, however it does: with its outcome, whose value still has one owner. Of
 * several that have resolved already, the first in the array counts. The others go on, and nothing of the compound
 * stays with them; nor does it when the compound is released before it has resolved, and nothing waits for it. So
 * nothing adds up in a loop that waits with a time-out for any of some futures.
 *
 * As stint_when_all; EINVAL: also when count is 0. Any thread. */
STINT_API int stint_when_any(stint_future *const *futures, size_t count, stint_future **any);

/* Which one it was: its index in the array.
 *
 * 0; EINVAL: any or index is NULL, or any is not of stint_when_any; EAGAIN: it has not resolved. Any thread. */
STINT_API int stint_when_any_index(const stint_future *any, size_t *index);

/* Cancel the task. If it is queued, it resolves at once as Cancelled and never starts; if it runs, it is interrupted at
 * its next sample point; if it has resolved, nothing changes. Its reason is STINT_REASON_TOKEN. NULL does nothing. Any
 * thread, also in callbacks. */
STINT_API void stint_future_cancel(stint_future *future);

/* Change the limits of a task that is queued, delayed or running, a walled one too, to those in *budget, as if it had
 * been submitted with them: all five, so 0 takes a limit away. wall_ns counts from the submission, as ever. What the
 * task has used stays used: one that has used more than a lower limit allows is stopped at its next sample point, for
 * which it is asked at once. A task of several threads goes by the new limits on each of them at the next sample point
 * of that. The idea is that of GHC's setAllocationCounterFor, for each limit.
 *
 * What is different from a submission with these limits: cpu_ns of a task that had none counts from the change, and
 * stays out of its usage. run_ns of a STINT_UNTIMED task that had no limit of time counts from its submission. A queued
 * task of which wall_ns is lowered, or had none, expires when a worker comes to it. A preemptible task that never
 * reaches code in which it may be left goes by a first cpu_ns only when it does.
 *
 * 0: the task goes by them from its next sample point on; one that is passing a limit or ending at this moment may end
 * as it would have. EALREADY: it has been stopped already, for whatever reason, or has resolved. EINVAL: an argument is
 * NULL, or it is a compound future or a series (later.h). Any thread, in tasks too, also for the task that calls. */
STINT_API int stint_future_set_budget(stint_future *future, const stint_budget *budget);

/* What the task has used so far, into *usage: allocated, peak and cpu_ns (where it is limited) as they were at its last
 * sample point, of which this asks for one more; wall_ns and queued_ns as they are now; the rest is 0. So who asks from
 * time to time is at most as far behind as the last time, but with a task that makes no sample points. Of a walled task
 * cpu_ns is 0 unless it is limited, and all three are as they were when somebody asked last. When the future has
 * resolved it is the outcome's usage.
 *
 * 0; EINVAL: an argument is NULL, or it is a compound future that has not resolved. Any thread, in tasks too. */
STINT_API int stint_future_usage(stint_future *future, stint_usage *usage);

/* Take another reference; returns future. The owner of a reference may make any call with it until it gives it back.
 * What the outcome's payload points to lives until the last reference has been given back. The value still has one
 * owner, to be agreed among them. NULL is passed through. Any thread that has a reference, also in callbacks. */
STINT_API stint_future *stint_future_retain(stint_future *future);

/* Give one reference back. The task goes on if it has not ended; the last one frees the future when it has. NULL does
 * nothing. Any thread; no call with this reference may be under way or follow. */
STINT_API void stint_future_release(stint_future *future);

/* --- Completion queues -------------------------------------------------------------------------------------------- */

/* A completion queue: many futures, one file descriptor, for loops around poll and epoll. Each future that has resolved
 * leaves a completion in the queue; the descriptor is readable while there is one. The idea is that of io_uring's and
 * of Windows' completion ports. examples/loops/epoll.c is such a loop. */

/* Read into an array: it stays as it is. */
typedef struct stint_completion {
    stint_future *future; /* which one; good only for comparing if the caller has released it */
    void *data;           /* that it was added with, or that of the task's options */

    /* Its payload lives until the future is released, and at least until the queue is read again or destroyed: where
     * several threads read, keep the future until you have read the payload. */
    stint_outcome outcome;
} stint_completion;

/* Make a queue with its descriptor. It is the caller's, to be destroyed.
 *
 * 0; EINVAL: queue is NULL; ENOMEM; EMFILE or ENFILE: no more descriptors. Any thread. */
STINT_API int stint_completions_create(stint_completions **queue);

/* Leave a completion in the queue when the future has resolved; at once if it has. A future may be added more than
 * once, and to several queues: there is a completion for each time. It may be released right afterwards. The memory for
 * the completion is taken here, so that resolving a future never fails; it is given back when the completion is read.
 *
 * 0; EINVAL: queue or future is NULL; ENOMEM (nothing was added). Any thread. */
STINT_API int stint_completions_add(stint_completions *queue, stint_future *future, void *data);

/* The descriptor, for poll, epoll (edge-triggered too) and select: readable while there are completions, and maybe once
 * more. It belongs to the queue: do not read, write or close it. The same one at each call; -1 for NULL. Any thread. */
STINT_API int stint_completions_fd(const stint_completions *queue);

/* Take out up to max completions. *count is how many, and may be 0. Futures that one thread resolved come in the order
 * in which it did. Never blocks. Several threads that read at once share what there is.
 *
 * 0; EINVAL: queue or count is NULL, or array is NULL and max is not 0 (*count is then 0, if count is given). Any
 * thread. */
STINT_API int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count);

/* Close the descriptor and forget what has not been read. Futures that have not resolved stay as they are; the record
 * that each has here is freed when it resolves. NULL does nothing. Any thread; no call on this queue may be under way
 * or follow. */
STINT_API void stint_completions_destroy(stint_completions *queue);

/* --- Groups ------------------------------------------------------------------------------------------------------- */

/* The group: tasks that are waited for together, however many they are and become: tasks may add more to their own
 * group. A group is idle when all that were added have resolved. The ideas are those of oneTBB's task_group and of Go's
 * errgroup; unlike stint_when_all it needs neither the futures nor their number. */

typedef struct stint_group stint_group;

/* Make a group, which is idle. It is the caller's, to be released.
 *
 * 0; EINVAL: group is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_create(stint_group **group);

/* Submit fn(arg) to a pool as stint_submit does, as one of the group, without a future for the caller. A value that the
 * task leaves is lost: where values are wanted, keep the futures and add them (stint_group_add).
 *
 * As stint_submit, and when it fails nothing was submitted; EINVAL: also when group is NULL. Any thread, also in tasks
 * of the group. */
STINT_API int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg,
                                 const stint_options *options);

/* Count a future with the group until it has resolved. It may be released afterwards.
 *
 * 0; EINVAL: group or future is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_add(stint_group *group, stint_future *future);

/* Wait until the group is idle. *outcome (which may be NULL) is Ok if all that have resolved since the group was made
 * are; otherwise it has the status, reason, error and payload of the first that was not. (That one cancels none of the
 * others.) Its usage is their sum, as stint_when_all has it; its payload stays until the group is released; it has no
 * value. Inside a task this waits for one after the other of them, and runs those that have not started, as
 * stint_future_wait does.
 *
 * 0, also for a group that is idle; EINVAL: group is NULL; EDEADLK: the task that waits is one of the group; otherwise
 * as stint_future_wait. Any thread. */
STINT_API int stint_group_wait(stint_group *group, stint_outcome *outcome);

/* The same, for at most timeout_ns nanoseconds; nothing is run here. Also ETIMEDOUT. Any thread. */
STINT_API int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome);

/* Make *idle a future that resolves when the group is idle next, now if it is, with the outcome that stint_group_wait
 * fills: for callbacks, completion queues, stint_when_any. Cancelling it does nothing. A task of the group that waits
 * for it gets EDEADLK. It is the caller's, to be released, and NULL after any error.
 *
 * 0; EINVAL: an argument is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_when_idle(stint_group *group, stint_future **idle);

/* Cancel all that are in the group now, as stint_future_cancel does. NULL does nothing. Any thread. */
STINT_API void stint_group_cancel(stint_group *group);

/* Give the group back. The tasks in it go on. NULL does nothing. Any thread; no other call on the group may be under
 * way or follow, but by its own tasks. */
STINT_API void stint_group_release(stint_group *group);

STINT_END_DECLS

#endif
