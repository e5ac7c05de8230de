/* SPDX-License-Identifier: MIT
 *
 * For tests of the pool: functions that make pools and accounts, submit tasks and take outcomes, and the tasks that
 * most tests use. */
#ifndef TESTS_POOLS_H
#define TESTS_POOLS_H

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "gate.h"
#include "support.h"

static inline stint_pool *make_pool_of(const stint_pool_options *options)
{
    stint_pool *pool;
    assert_int_equal(stint_pool_create(options, &pool), 0);
    return pool;
}

/* make_pool(.workers = 2, ...): the other options are as they are by default. */
#define make_pool(...) make_pool_of(&(stint_pool_options){ .size = sizeof(stint_pool_options), __VA_ARGS__ })

static inline stint_future *submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, options, &future), 0);
    return future;
}

static inline stint_future *submit_as(stint_pool *pool, stint_fn *fn, void *arg, stint_account *account,
                                      stint_priority priority)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    options.priority = priority;
    return submit(pool, fn, arg, &options);
}

static inline stint_future *submit_for(stint_pool *pool, stint_fn *fn, void *arg, stint_account *account)
{
    return submit_as(pool, fn, arg, account, STINT_PRIORITY_NORMAL);
}

static inline stint_outcome take(stint_future *future)
{
    stint_outcome outcome;
    memset(&outcome, 0xa5, sizeof outcome);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

/* A task that hangs fails the test and not the suite: its time is up when nothing else on the machine could explain
 * it. */
static inline stint_outcome take_in_time(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait_for(future, 60000 * MS, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

static inline stint_outcome run_in_pool(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    return take(submit(pool, fn, arg, options));
}

static inline void release_all(stint_future **futures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stint_future_release(futures[i]);
}

static inline stint_pool_statistics read_pool(const stint_pool *pool)
{
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    return statistics;
}

/* A future that its setter may set after the reader has begun. */
static inline stint_future *await_pointer(stint_future *_Atomic *pointer)
{
    stint_future *future;
    while ((future = atomic_load(pointer)) == NULL)
        sched_yield();
    return future;
}

/* Forks and joins until another thread has taken an earlier fork. */
static inline void have_stolen(const atomic_uint *begun)
{
    while (atomic_load(begun) == 0) {
        stint_subtask none;
        stint_fork(&none, do_nothing, NULL);
        stint_join(&none, NULL);
        sched_yield();
    }
}

/* --- Tasks -------------------------------------------------------------------------------------------------------- */

static inline int do_nothing_next(const stint_outcome *before, void *arg, void **value)
{
    (void)before;
    return do_nothing(arg, value);
}

/* Its value is its argument. */
static inline int give(void *arg, void **value)
{
    *value = arg;
    return 0;
}

/* Counts itself, and gives the counter. */
static inline int count_run(void *counter, void **value)
{
    *value = counter;
    atomic_fetch_add((atomic_uint *)counter, 1);
    return 0;
}

/* In the child of a fork(2) that a task made: a worker has all signals blocked. */
static inline void end_if_it_hangs(unsigned seconds)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(seconds);
}

#endif
