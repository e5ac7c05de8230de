/* SPDX-License-Identifier: MIT
 *
 * Preemptible tasks whose subtasks run elsewhere: an interrupt that one thread finds reaches the others in the middle
 * of code that makes no sample points. */
#include "support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stint/fork.h>

static stint_pool *pool;

static int start(void **state)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 3 };
    (void)state;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(stint_pool_destroy(pool), 0);
    return 0;
}

static atomic_bool started;
static atomic_uint released;

static void count_release(void *unused)
{
    (void)unused;
    atomic_fetch_add(&released, 1);
}

static int compute_for_ever(void *unused, void **value)
{
    (void)unused;
    (void)value;
    STINT_GUARD(count_release, NULL);
    atomic_store(&started, true);
    for (volatile uint64_t count = 0; count != UINT64_MAX;)
        count = count + 1;
    return 0;
}

/* Something is shared when the owner forks or joins again. */
static void await_theft(void)
{
    while (!atomic_load(&started)) {
        stint_subtask other;
        stint_fork(&other, do_nothing, NULL);
        sched_yield();
        stint_join(&other, NULL);
    }
}

static int pass_the_limit_beside_a_loop(void *unused, void **value)
{
    stint_subtask loop;
    (void)unused;
    (void)value;
    STINT_GUARD(count_release, NULL);
    stint_fork(&loop, compute_for_ever, NULL);
    await_theft();
    while (stint_malloc(1000) != NULL)
        ;
    return stint_join(&loop, NULL);
}

static int pass_the_limit(void *unused, void **value)
{
    (void)unused;
    (void)value;
    STINT_GUARD(count_release, NULL);
    atomic_store(&started, true);
    while (stint_malloc(1000) != NULL)
        ;
    return 0;
}

static int loop_beside_one_that_passes_the_limit(void *unused, void **value)
{
    stint_subtask other;
    (void)unused;
    STINT_GUARD(count_release, NULL);
    stint_fork(&other, pass_the_limit, NULL);
    await_theft();
    compute_for_ever(NULL, value);
    return stint_join(&other, NULL);
}

static int join_a_loop(void *unused, void **value)
{
    stint_subtask loop;
    (void)unused;
    (void)value;
    STINT_GUARD(count_release, NULL);
    stint_fork(&loop, compute_for_ever, NULL);
    await_theft();
    return stint_join(&loop, NULL);
}

static stint_outcome run_preemptible(stint_fn *fn, size_t limit, bool cancels)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_outcome outcome;
    options.preemptible = true;
    options.budget.allocation = limit;
    atomic_store(&started, false);
    atomic_store(&released, 0);
    assert_int_equal(stint_submit(pool, fn, NULL, &options, &future), 0);
    while (cancels && !atomic_load(&started))
        sched_yield();
    if (cancels)
        stint_future_cancel(future);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_in_range(atomic_load(&released), 2, 3); /* the owner's, its loop's if it came to that, the thief's */
    return outcome;
}

TEST_WITH(a_limit_that_one_thread_passes_ends_the_other_in_an_empty_loop, start, end)
{
    for (int round = 0; round < 30; round++) {
        assert_limit_passed(run_preemptible(pass_the_limit_beside_a_loop, 100 * KIB, false));
        assert_limit_passed(run_preemptible(loop_beside_one_that_passes_the_limit, 100 * KIB, false));
    }
}

TEST_WITH(a_cancelled_task_ends_in_the_empty_loop_of_a_stolen_subtask, start, end)
{
    for (int round = 0; round < 30; round++)
        assert_cancelled(run_preemptible(join_a_loop, 0, true), STINT_REASON_TOKEN);
}

TEST_MAIN()
