/* SPDX-License-Identifier: MIT
 *
 * The future is the one place where a task's outcome appears. Each task's future resolves exactly once, whatever
 * happens to the task or its pool. A program waits for a future, gives it a callback, combines it with others, reads it
 * from a descriptor (completion queues), or counts it with a group.
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

/* The future of a task. stint_submit and its like make one, and stint_future_release gives it back. */
typedef struct stint_future stint_future;

typedef struct stint_pool stint_pool; /* pool.h */

/* --- Waiting ------------------------------------------------------------------------------------------------------ */

/* Tell whether the future has resolved. The call never blocks.
 *
 * Returns true if it has; false for NULL. */
STINT_API bool stint_future_is_ready(const stint_future *future);

/* Wait until the future has resolved, and copy its outcome to *outcome (outcome may be NULL). The call may be repeated,
 * and may come from several threads. Each of them gets the same outcome. Only one of them may take over the value in
 * it.
 *
 * In a task of the same pool, an awaited task that has not started is run right here, in a scope of its own, as long as
 * half the stack is free. Otherwise the calling task sleeps, and a substitute worker takes its place
 * (stint_pool_options.substitutes).
 *
 * A wait that succeeds is a sample point, so in STINT_JUMP it may not return. A wait that sleeps when an interrupt
 * comes (a deadline, a cancellation, the end of the pool) is one too: the interrupt is delivered some ten milliseconds
 * later at most. An interrupt that a mask or a lock defers waits until the future has resolved. A task that is run
 * right here is not cut short.
 *
 * Returns 0, or:
 *   EINVAL     future is NULL
 *   EDEADLK    the future cannot resolve before the wait ends. A task waits for itself, a subtask for its task, or a
 *              task for one on whose behalf it is run. Or tasks, in whatever pools, wait for each other in a circle
 *              without a time-out: one of them gets this error some ten milliseconds after the last has fallen asleep.
 *              Or the call is in a callback, and the future has not resolved
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop
 *   EAGAIN     nobody can end the wait now, and a later call may succeed. The awaited task has not begun, every thread
 *              of its pool waits, and no substitute is left. This thread cannot run the task either: only an eighth of
 *              its stack is left; or the task was delayed (later.h), and the queue has no slot for it; or the task lies
 *              in the queue of another pool, whose threads wait in the end for this one's */
STINT_API int stint_future_wait(stint_future *future, stint_outcome *outcome);

/* Wait for the future for at most timeout_ns nanoseconds; 0 only looks. The awaited task is never run here. In
 * everything else this is stint_future_wait.
 *
 * Returns 0, or:
 *   ETIMEDOUT  the future has not resolved yet, and *outcome is as it was
 *   EAGAIN     timeout_ns is STINT_FOREVER, every thread of the pool waits, and nobody has begun the awaited task
 *   EINVAL, EDEADLK, ECANCELED  as stint_future_wait */
STINT_API int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome);

/* --- A task that is under way ------------------------------------------------------------------------------------- */

/* Cancel the task. A queued task resolves at once as Cancelled and never starts. A running task is interrupted at its
 * next sample point. If the future has resolved, nothing changes. The reason is STINT_REASON_TOKEN. NULL does
 * nothing. */
STINT_API void stint_future_cancel(stint_future *future);

/* Change the limits of a task that is queued, delayed or running, a walled one too. All five limits become those in
 * *budget, as if the task had been submitted with them; so 0 takes a limit away. What the task has used stays used: a
 * task that has used more than a lower limit allows is stopped at its next sample point, for which this call asks. On
 * each thread of a task of several threads, the new limits apply from the next sample point of that thread. The idea is
 * that of GHC's setAllocationCounterFor, for each limit.
 *
 * A few things differ from a submission with these limits:
 *   - cpu_ns of a task that had no such limit counts from the change, and stays out of its usage.
 *   - run_ns of a STINT_UNTIMED task that had no limit of time counts from its submission.
 *   - A queued task whose wall_ns is lowered, or that had none, expires when a worker comes to it.
 *   - A preemptible task obeys a first cpu_ns only once it reaches code in which it may be left.
 *
 * Returns 0: the task obeys the limits from its next sample point on. A task that passes a limit or ends at this moment
 * may end as it would have. Otherwise:
 *   EINVAL    an argument is NULL, or the future is a compound or a series (later.h)
 *   EALREADY  the task has been stopped already, for whatever reason, or has resolved */
STINT_API int stint_future_set_budget(stint_future *future, const stint_budget *budget);

/* Read what the task has used so far into *usage. wall_ns and queued_ns are as they are now. allocated, peak and cpu_ns
 * (where it is limited) are as they were at the task's last sample point; the call asks the task for one more. So a
 * program that reads from time to time is as far behind as its last call, unless the task makes no sample points. The
 * other fields are 0.
 *
 * Of a walled task all three are as they were when somebody asked last, and cpu_ns is 0 unless it is limited. When the
 * future has resolved, *usage is that of its outcome.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL, or the future is a compound that has not resolved */
STINT_API int stint_future_usage(stint_future *future, stint_usage *usage);

/* --- Holding a future --------------------------------------------------------------------------------------------- */

/* Take another reference to the future. The owner of a reference may make any call with it until it gives the reference
 * back. What the outcome's payload points to lives until the last reference has been given back. The value still has
 * one owner. NULL is passed through.
 *
 * Threads: any thread that has a reference, also in a callback.
 *
 * Returns future. */
STINT_API stint_future *stint_future_retain(stint_future *future);

/* Give a reference to the future back. The task goes on if it has not ended; the future is freed when the task has
 * ended and the last reference is gone. No call with this reference may be under way or follow. NULL does nothing. */
STINT_API void stint_future_release(stint_future *future);

/* --- Callbacks ---------------------------------------------------------------------------------------------------- */

/* Is called when a future has resolved. The future is valid during the call, although nobody need have retained it, and
 * the function may release it. */
typedef void stint_callback_fn(stint_future *future, const stint_outcome *outcome, void *arg);

/* Have callback(future, outcome, arg) called once, when the future has resolved.
 *
 * Where it runs: on the thread that resolves the future, at that moment. That is the worker that ran the task, perhaps
 * in the midst of another task that waits for it. For a task that never starts it is the thread that ends the task: the
 * caller of stint_future_cancel or of stint_pool_shutdown, or a worker. A task whose deadline passes while it is queued
 * ends on the one thread that its pool has for all of those. If the future has resolved already, the callback runs
 * right here, before stint_future_then returns; but if a thread is in the midst of an earlier callback of this future,
 * that thread calls it next. A callback is in no task's scope, even if its thread is in the midst of a task: what it
 * allocates comes from the process's heap and is charged to no task, and no interrupt reaches it.
 *
 * In which order: the callbacks of one future run one after the other, in the order in which they were given. A thread
 * that waits may have returned before them. A callback that becomes due during another one on the same thread runs when
 * that has returned. When stint_pool_destroy has returned, all callbacks of its pool's tasks that were given before
 * have returned too.
 *
 * What it may do: everything that does not block. A callback should be short, as its thread does nothing else
 * meanwhile; a longer piece of work is submitted as a task. In a callback, a wait for a future that has not resolved,
 * and a shutdown or destruction of any pool, return EDEADLK. A callback must return (stint.h).
 *
 * Returns 0, or:
 *   EINVAL  future or callback is NULL
 *   ENOMEM  there is no memory, and callback will not be called */
STINT_API int stint_future_then(stint_future *future, stint_callback_fn *callback, void *arg);

/* The record of a callback that can be taken back. It lies in the caller's memory, and its fields are the library's. */
typedef struct stint_continuation {
    void *fields_[4];
    stint_callback_fn *callback_;
    void *arg_;
} stint_continuation;

/* Have a callback called as stint_future_then does, but with a record of the caller's. So the call needs no memory, and
 * the callback can be taken back. The record must stay in place until the callback begins, which may free it or use it
 * again; or until the callback has been taken back.
 *
 * Returns 0, or:
 *   EINVAL  an argument other than arg is NULL */
STINT_API int stint_future_add_continuation(stint_future *future, stint_continuation *continuation,
                                            stint_callback_fn *callback, void *arg);

/* Take back a callback that was given to stint_future_add_continuation. The future is the one it was given for, and
 * must not have been released. The call takes the same time however many other callbacks there are, and never waits. A
 * loop that waits for a future of its own, and for one that outlives the loop, takes the callback on the latter back at
 * the end of each turn. The idea is that of C++'s stop_callback, whose destructor also waits.
 *
 * Returns 0: the callback will not be called. Otherwise:
 *   EBUSY     the callback has begun, and has not returned
 *   EALREADY  the callback has returned
 *   EINVAL    an argument is NULL, or the record was last given for another future */
STINT_API int stint_future_remove_continuation(stint_future *future, stint_continuation *continuation);

/* --- Compound futures --------------------------------------------------------------------------------------------- */

/* Combine futures into one that resolves when all of them have. *all is Ok, without a value, if all of them are.
 * Otherwise it has the status, the reason and the error of the first in the array that is not. It does not resolve
 * before the last member has, so none of their tasks runs any more then. In its usage, allocated, samples, deferred and
 * kept are sums, and peak, wall_ns and queued_ns are the greatest. With a count of 0 it is Ok at once.
 *
 * The caller owns *all and releases it; it is NULL after an error. The members may be released right afterwards, and
 * may be compound futures too. stint_future_cancel of the compound cancels each member; the compound resolves when they
 * have. A task that waits for the compound runs those members that have not started.
 *
 * Returns 0, or:
 *   EINVAL  all is NULL; futures is NULL and count is not 0; or one of the futures is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_when_all(stint_future *const *futures, size_t count, stint_future **all);

/* Combine futures into one that resolves when the first of them does, however that ended. *any has the outcome of that
 * future, whose value still has one owner. Of several that have resolved already, the first in the array counts.
 *
 * The caller owns *any and releases it; it is NULL after an error. The members may be released right afterwards.
 * stint_future_cancel of the compound cancels each member. Otherwise the other members go on, and nothing of the
 * compound stays with them, also when the compound is released before it has resolved. So nothing adds up in a loop
 * that waits, with a time-out, for any of some futures. A task that waits for the compound runs none of the members.
 *
 * Returns 0, or:
 *   EINVAL  any is NULL, count is 0, futures is NULL, or one of the futures is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_when_any(stint_future *const *futures, size_t count, stint_future **any);

/* Tell which future resolved a compound of stint_when_any: its index in the array, into *index.
 *
 * Returns 0, or:
 *   EINVAL  any or index is NULL, or any is not of stint_when_any
 *   EAGAIN  the compound has not resolved */
STINT_API int stint_when_any_index(const stint_future *any, size_t *index);

/* --- Completion queues -------------------------------------------------------------------------------------------- */

/* A completion queue turns many futures into one file descriptor, for loops around poll and epoll. Each future that has
 * resolved leaves a completion in the queue, and the descriptor is readable while there is one. The idea is that of
 * io_uring's and of Windows' completion ports. examples/loops/epoll.c is such a loop. */

/* A future that has resolved, as stint_completions_read tells of it. This struct never grows, as it is read into
 * arrays. */
typedef struct stint_completion {
    stint_future *future; /* which one; if it has been released, the pointer is good only for comparing */
    void *data;           /* what the future was added with, or the data of the task's options */

    /* The future's outcome. Its payload lives until the future is released, and at least until the queue is read again
     * or destroyed. Where several threads read the queue, a thread retains the future until it has read the payload. */
    stint_outcome outcome;
} stint_completion;

/* Make a completion queue, with its descriptor. The caller owns the queue, and destroys it with
 * stint_completions_destroy.
 *
 * Returns 0, or:
 *   EINVAL  queue is NULL
 *   ENOMEM  there is no memory
 *   EMFILE, ENFILE  there are no more descriptors */
STINT_API int stint_completions_create(stint_completions **queue);

/* Have the future leave a completion with data in the queue when it has resolved. If it has resolved already, the
 * completion is there at once. A future may be added more than once, and to several queues: each time makes a
 * completion. The future may be released right afterwards. The memory for the completion is taken here, so the end of a
 * task never fails for want of it, and is given back when the completion has been read.
 *
 * Returns 0, or:
 *   EINVAL  queue or future is NULL
 *   ENOMEM  there is no memory, and nothing was added */
STINT_API int stint_completions_add(stint_completions *queue, stint_future *future, void *data);

/* Tell the descriptor of the queue, for poll, epoll (edge-triggered too) and select. It is readable while there are
 * completions, and may be readable once more than that. The descriptor belongs to the queue: a program does not read,
 * write or close it. Each call tells the same one.
 *
 * Returns the descriptor; -1 for NULL. */
STINT_API int stint_completions_fd(const stint_completions *queue);

/* Take up to max completions out of the queue into array, and their number into *count, which may be 0. The call never
 * blocks. Futures that one thread resolved come in the order in which it did so. Several threads that read at once
 * share what there is.
 *
 * Returns 0, or:
 *   EINVAL  queue or count is NULL, or array is NULL and max is not 0 (*count is then 0, if count is given) */
STINT_API int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count);

/* Destroy the queue: close its descriptor, and forget what has not been read. Futures that have not resolved stay as
 * they are; the record that each has in the queue is freed when the future resolves. No other call on the queue may be
 * under way or follow. NULL does nothing. */
STINT_API void stint_completions_destroy(stint_completions *queue);

/* --- Groups ------------------------------------------------------------------------------------------------------- */

/* A group is a set of tasks that a program waits for together, however many they are and become: a task may add more to
 * its own group. The group is idle when all that were added have resolved. The ideas are those of oneTBB's task_group
 * and of Go's errgroup. Unlike stint_when_all, a group needs neither the futures nor their number. */

typedef struct stint_group stint_group;

/* Make a group, which is idle. The caller owns the group, and gives it back with stint_group_release.
 *
 * Returns 0, or:
 *   EINVAL  group is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_group_create(stint_group **group);

/* Submit fn(arg) to a pool as a task of the group, without a future for the caller. In everything else this is
 * stint_submit. A value that the task leaves is lost; a program that wants values keeps the futures, and adds them with
 * stint_group_add. A task of the group may make this call too.
 *
 * Returns 0, or:
 *   EINVAL  group is NULL, or as stint_submit
 *   E2BIG, ENOTSUP, EAGAIN, EDQUOT, ESHUTDOWN, ENOMEM  as stint_submit; nothing was submitted */
STINT_API int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg,
                                 const stint_options *options);

/* Count a future with the group until it has resolved. The future may be released right afterwards.
 *
 * Returns 0, or:
 *   EINVAL  group or future is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_group_add(stint_group *group, stint_future *future);

/* Wait until the group is idle, and fill *outcome (outcome may be NULL). It is Ok if all tasks are that have resolved
 * since the group was made. Otherwise it has the status, the reason, the error and the payload of the first task that
 * was not Ok; the group does not cancel the others for that. Its usage is the sum, as for stint_when_all. Its payload
 * stays until the group is released. It has no value. In a task of a pool, the call waits for one task after the other,
 * and runs those that have not started, as stint_future_wait does.
 *
 * Returns 0, or:
 *   EINVAL   group is NULL
 *   EDEADLK  the task that waits is one of the group; or as stint_future_wait
 *   ECANCELED, EAGAIN  as stint_future_wait
 *   ENOMEM   outside of a pool's tasks: there is no memory for the wait */
STINT_API int stint_group_wait(stint_group *group, stint_outcome *outcome);

/* Wait until the group is idle for at most timeout_ns nanoseconds. No task is run here. In everything else this is
 * stint_group_wait.
 *
 * Returns 0, or:
 *   ETIMEDOUT  the group is not idle yet
 *   ENOMEM     there is no memory for the wait
 *   EINVAL, EDEADLK, ECANCELED, EAGAIN  as stint_group_wait */
STINT_API int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome);

/* Make a future that resolves when the group is idle next, or at once if it is idle now. *idle gets the outcome that
 * stint_group_wait fills in. It is for callbacks, completion queues and stint_when_any. To cancel it does nothing. A
 * task of the group that waits for it gets EDEADLK. The caller owns *idle and releases it; it is NULL after an error.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_group_when_idle(stint_group *group, stint_future **idle);

/* Cancel each task that is in the group now, as stint_future_cancel does. NULL does nothing. */
STINT_API void stint_group_cancel(stint_group *group);

/* Give the group back. The tasks in it go on. No other call on the group may be under way or follow, except by its own
 * tasks. NULL does nothing. */
STINT_API void stint_group_release(stint_group *group);

STINT_END_DECLS

#endif
