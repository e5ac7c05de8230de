/* SPDX-License-Identifier: MIT
 *
 * The numbers of stint_pool_read and stint_pool_read_worker agree with the work that was done. */
#include "pools.h"

static stint_worker_statistics read_workers(const stint_pool *pool)
{
    stint_worker_statistics sum = STINT_WORKER_STATISTICS_INIT;
    for (unsigned i = 0; i < stint_pool_workers(pool); i++) {
        stint_worker_statistics statistics = STINT_WORKER_STATISTICS_INIT;
        assert_int_equal(stint_pool_read_worker(pool, i, &statistics), 0);
        sum.tasks += statistics.tasks;
        sum.steals += statistics.steals;
        sum.parks += statistics.parks;
        sum.queued += statistics.queued;
    }
    return sum;
}

static int fall_short(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return EPROTO;
}

static int allocate(void *arg, void **value)
{
    (void)arg;
    for (size_t i = 0; i < 1000; i++)
        stint_free(*value = stint_malloc(1000));
    *value = NULL;
    return 0;
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_pool_statistics of_pool = STINT_POOL_STATISTICS_INIT;
    stint_worker_statistics of_worker = STINT_WORKER_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(NULL, &of_pool), EINVAL);
    assert_int_equal(stint_pool_read(pool, NULL), EINVAL);
    assert_int_equal(stint_pool_read_worker(NULL, 0, &of_worker), EINVAL);
    assert_int_equal(stint_pool_read_worker(pool, 0, NULL), EINVAL);
    assert_int_equal(stint_pool_read_worker(pool, 2, &of_worker), EINVAL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(outcomes_are_counted_by_reason)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_options limited = STINT_OPTIONS_INIT;
    limited.budget.allocation = 1000;
    for (int i = 0; i < 30; i++)
        take(submit(pool, do_nothing, NULL, NULL));
    for (int i = 0; i < 20; i++)
        take(submit(pool, fall_short, NULL, NULL));
    for (int i = 0; i < 10; i++)
        take(submit(pool, allocate, NULL, &limited));
    stint_pool_statistics statistics = read_pool(pool);
    assert_int_equal(statistics.outcomes[STINT_REASON_NONE], 30);
    assert_int_equal(statistics.outcomes[STINT_REASON_FAILED], 20);
    assert_int_equal(statistics.outcomes[STINT_REASON_ALLOCATION_LIMIT], 10);
    assert_int_equal(statistics.queued + statistics.waiting + statistics.held_back, 0);
    assert_int_equal(read_workers(pool).tasks, 60);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(what_waits_is_counted_where_it_waits)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_future *futures[8];
    futures[0] = submit(pool, gate_hold, &gate, &options);
    gate_await(&gate, 1);
    for (int i = 1; i < 4; i++)
        futures[i] = submit(pool, do_nothing, NULL, &options);
    for (int i = 4; i < 8; i++)
        futures[i] = submit(pool, do_nothing, NULL, NULL);
    stint_pool_statistics statistics = read_pool(pool);
    assert_int_equal(statistics.queued, 4);
    assert_int_equal(statistics.waiting, 3);
    gate_open(&gate);
    for (int i = 0; i < 8; i++)
        take(futures[i]);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

TEST(tasks_that_never_start_are_counted_too)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_options high = STINT_OPTIONS_INIT;
    high.priority = STINT_PRIORITY_HIGH;
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *futures[20];
    for (int i = 0; i < 20; i++)
        futures[i] = submit(pool, do_nothing, NULL, i % 2 == 0 ? NULL : &high);
    for (int i = 0; i < 8; i++)
        stint_future_cancel(futures[i]);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, 0), ETIMEDOUT);
    gate_open(&gate);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
    stint_pool_statistics statistics = read_pool(pool);
    assert_int_equal(statistics.outcomes[STINT_REASON_TOKEN], 8);
    assert_int_equal(statistics.outcomes[STINT_REASON_SHUTDOWN], 13); /* with the holder */
    assert_int_equal(statistics.queued + statistics.waiting, 0);
    for (int i = 0; i < 20; i++)
        stint_future_release(futures[i]);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct brood {
    stint_pool *pool;
    struct gate gate;
};

static int submit_brood_and_hold(void *arg, void **value)
{
    struct brood *brood = arg;
    for (int i = 0; i < 50; i++) {
        stint_future *future;
        int error = stint_submit(brood->pool, do_nothing, NULL, NULL, &future);
        if (error != 0)
            return error;
        stint_future_release(future);
    }
    return gate_hold(&brood->gate, value);
}

TEST(a_worker_s_own_tasks_and_what_is_stolen_of_them_are_counted)
{
    struct brood brood = { .pool = make_pool(.workers = 1) };
    stint_future *parent = submit(brood.pool, submit_brood_and_hold, &brood, NULL);
    gate_await(&brood.gate, 1);
    assert_int_equal(read_workers(brood.pool).queued, 50);
    assert_int_equal(read_pool(brood.pool).queued, 50);
    gate_open(&brood.gate);
    take(parent);
    assert_int_equal(stint_pool_destroy(brood.pool), 0);

    brood = (struct brood){ .pool = make_pool(.workers = 2) };
    parent = submit(brood.pool, submit_brood_and_hold, &brood, NULL);
    gate_await(&brood.gate, 1);
    while (read_pool(brood.pool).outcomes[STINT_REASON_NONE] < 50)
        gate_nap();
    assert_int_equal(read_workers(brood.pool).steals, 50);
    gate_open(&brood.gate);
    take(parent);
    while (read_workers(brood.pool).parks < 2)
        gate_nap();
    assert_int_equal(stint_pool_destroy(brood.pool), 0);
}

TEST_MAIN()
