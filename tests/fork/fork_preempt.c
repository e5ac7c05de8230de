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

/* --- In what the library's functions call --- */

static int spin_in_a_loop(size_t begin, size_t end, void *unused)
{
    (void)begin;
    (void)end;
    return compute_for_ever(unused, NULL);
}

static int loop(void *unused, void **value)
{
    (void)value;
    return stint_for(0, 10, 1, spin_in_a_loop, unused);
}

static int spin_in_a_reduction(size_t begin, size_t end, void *accumulator, void *unused)
{
    (void)accumulator;
    return spin_in_a_loop(begin, end, unused);
}

static void spin_between_two(void *accumulator, const void *behind, void *unused)
{
    (void)accumulator;
    (void)behind;
    compute_for_ever(unused, NULL);
}

static int reduce(void *unused, void **value)
{
    const stint_reduction reduction = { .size = 8, .accumulate = spin_in_a_reduction, .combine = spin_between_two };
    char result[8];
    (void)value;
    return stint_reduce(0, 10, 1, &reduction, unused, result);
}

/* A range is halved when another worker has asked for work. */
static int wait_in_a_reduction(size_t begin, size_t end, void *accumulator, void *unused)
{
    (void)begin;
    (void)end;
    (void)accumulator;
    (void)unused;
    usleep(100);
    return 0;
}

static int combine(void *unused, void **value)
{
    const stint_reduction reduction = { .size = 8, .accumulate = wait_in_a_reduction, .combine = spin_between_two };
    char result[8];
    (void)value;
    return stint_reduce(0, 100000, 1, &reduction, unused, result);
}

#define SORTED ((size_t)20000)
static size_t compared_before; /* of some 250,000 */
static atomic_size_t compared;

static int spin_at_some_comparison(const void *a, const void *b, void *unused)
{
    int x = *(const int *)a;
    int y = *(const int *)b;
    if (++compared > compared_before)
        compute_for_ever(unused, NULL);
    return (x > y) - (x < y);
}

static int sort_numbers(void *unused, void **value)
{
    static int numbers[SORTED];
    (void)value;
    compared = 0;
    for (size_t i = 0; i < SORTED; i++)
        numbers[i] = (int)((i * 7919) % SORTED);
    return stint_sort(numbers, SORTED, sizeof *numbers, spin_at_some_comparison, unused);
}

static int acquire_nothing(void *unused, void **resource)
{
    (void)unused;
    (void)resource;
    return 0;
}

static int spin_in_use(void *unused, void *resource)
{
    (void)resource;
    return compute_for_ever(unused, NULL);
}

static void release_nothing(void *unused, void *resource)
{
    (void)resource;
    count_release(unused);
}

static int use(void *unused, void **value)
{
    (void)value;
    return stint_with(acquire_nothing, spin_in_use, release_nothing, unused);
}

/* In an inner scope every join is a slow one once another worker has asked for work. */
static int spin_in_a_join(void *unused, void **value)
{
    stint_subtask subtask;
    stint_fork(&subtask, compute_for_ever, unused);
    return stint_join(&subtask, value);
}

static int join_in_a_scope(void *unused, void **value)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)value;
    options.preemptible = true;
    usleep(1000);
    return stint_run(spin_in_a_join, unused, &options, &outcome);
}

static void assert_stopped(const char *name, stint_fn *fn)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_outcome outcome;
    options.preemptible = true;
    options.budget.run_ns = 10 * MS;
    assert_int_equal(stint_submit(pool, fn, NULL, &options, &future), 0);
    int error = stint_future_wait_for(future, 20000 * MS, &outcome);
    if (error != 0)
        print_error("%s goes on\n", name);
    assert_int_equal(error, 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    stint_future_release(future);
}

TEST_WITH(what_loops_sorts_joins_and_resources_call_is_stopped_by_a_deadline, start, end)
{
    assert_stopped("the body of a loop", loop);
    assert_stopped("a piece of a reduction", reduce);
    assert_stopped("the combination of two pieces", combine);
    for (compared_before = 0; compared_before < 100000; compared_before = compared_before * 3 / 2 + 10)
        assert_stopped("a comparison", sort_numbers);
    assert_stopped("the use of a resource", use);
    assert_stopped("a subtask in its join", join_in_a_scope);
}

TEST_MAIN()
