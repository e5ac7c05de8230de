/* SPDX-License-Identifier: MIT
 *
 * stint_yield: others run on the worker between a task's steps, in bounded depth, and never where they could want what
 * the task has. */
#include "pools.h"

#define MAX_YIELDS 8

static stint_pool *pool;

static int one_worker(void **state)
{
    (void)state;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1 };
    return stint_pool_create(&options, &pool);
}

static int no_worker(void **state)
{
    (void)state;
    return stint_pool_destroy(pool);
}

/* --- Others run --------------------------------------------------------------------------------------------------- */

struct steps {
    struct gate gate;
    atomic_uint others;
    unsigned wanted;
    unsigned ran;
    bool none_left;
};

static int yield_until_they_have_run(void *arg, void **value)
{
    struct steps *steps = arg;
    (void)value;
    atomic_fetch_add(&steps->gate.entered, 1);
    while (!atomic_load(&steps->gate.open))
        gate_nap();
    while (atomic_load(&steps->others) < steps->wanted)
        steps->ran += stint_yield();
    steps->none_left = !stint_yield();
    return 0;
}

TEST_WITH(others_run_between_the_steps_of_a_task, one_worker, no_worker)
{
    enum { EACH = 30 };
    struct steps steps = { .wanted = 2 * EACH };
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    stint_future *task = submit_for(pool, yield_until_they_have_run, &steps, NULL);
    stint_future *others[2 * EACH];
    gate_await(&steps.gate, 1);
    for (unsigned i = 0; i < 2 * EACH; i++)
        others[i] = submit_for(pool, count_run, &steps.others, i % 2 == 0 ? account : NULL);
    gate_open(&steps.gate);
    assert_ok(take(task));
    assert_int_equal(steps.ran, 2 * EACH);
    assert_true(steps.none_left);
    for (unsigned i = 0; i < 2 * EACH; i++)
        assert_ok(take(others[i]));
    stint_account_release(account);
}

static int allocate_a_mebibyte(void *arg, void **value)
{
    int error = count_run(arg, value);
    *value = keep(stint_malloc(MIB));
    return error;
}

static int yield_once(void *arg, void **value)
{
    struct steps *steps = arg;
    (void)value;
    stint_future *other;
    int error = stint_submit(pool, allocate_a_mebibyte, &steps->others, NULL, &other);
    if (error != 0)
        return error;
    steps->ran = stint_yield();
    stint_outcome outcome;
    error = stint_future_wait(other, &outcome);
    stint_future_release(other);
    if (error == 0)
        stint_free(outcome.value);
    return error;
}

TEST_WITH(what_runs_on_top_is_not_charged_to_who_yields, one_worker, no_worker)
{
    struct steps steps = { .wanted = 1 };
    stint_outcome outcome = take(submit_for(pool, yield_once, &steps, NULL));
    assert_ok(outcome);
    assert_int_equal(steps.ran, 1);
    assert_true(outcome.usage.allocated < MIB);
}

/* --- Not without bound -------------------------------------------------------------------------------------------- */

static struct {
    unsigned depth, deepest;
    unsigned ran;
} nest;

static int yield_and_nest(void *arg, void **value)
{
    (void)arg;
    (void)value;
    nest.depth++;
    nest.deepest = nest.depth > nest.deepest ? nest.depth : nest.deepest;
    stint_yield();
    nest.depth--;
    nest.ran++;
    return 0;
}

TEST_WITH(tasks_that_yield_lie_on_each_other_in_bounded_depth, one_worker, no_worker)
{
    enum { TASKS = 1000 };
    struct gate gate = { 0 };
    static stint_future *futures[TASKS];
    stint_future *holder = submit_for(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    for (unsigned i = 0; i < TASKS; i++)
        futures[i] = submit_for(pool, yield_and_nest, NULL, NULL);
    gate_open(&gate);
    assert_ok(take(holder));
    for (unsigned i = 0; i < TASKS; i++)
        assert_ok(take(futures[i]));
    assert_int_equal(nest.ran, TASKS);
    assert_int_equal(nest.deepest, MAX_YIELDS + 1);
}

/* --- Not where it could want what the task has -------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int yield_while_holding(void *arg, void **value)
{
    struct steps *steps = arg;
    (void)value;
    stint_future *other;
    int error = stint_submit(pool, count_run, &steps->others, NULL, &other);
    if (error != 0)
        return error;
    stint_mask();
    steps->ran += stint_yield();
    stint_unmask();
    if (stint_malloc_is_overridden()) { /* locks are seen then */
        pthread_mutex_lock(&mutex);
        steps->ran += stint_yield();
        pthread_mutex_unlock(&mutex);
    }
    if (atomic_load(&steps->others) > 0)
        error = EBUSY;
    stint_future_release(other);
    return error;
}

TEST_WITH(nothing_runs_while_the_task_is_masked_or_holds_a_lock, one_worker, no_worker)
{
    static struct steps steps = { .wanted = 1 }; /* the other task may run after this function */
    assert_ok(take(submit_for(pool, yield_while_holding, &steps, NULL)));
    assert_int_equal(steps.ran, 0);
}

static int yield_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!stint_is_interrupted())
        stint_yield();
    return 0;
}

TEST_WITH(a_yield_is_a_sample_point_and_outside_of_tasks_nothing, one_worker, no_worker)
{
    assert_false(stint_yield());
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 1000000;
    assert_outcome(run_task(yield_for_ever, NULL, &options), STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    stint_future *future;
    assert_int_equal(stint_submit(pool, yield_for_ever, NULL, &options, &future), 0);
    assert_outcome(take(future), STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
}

TEST_MAIN()
