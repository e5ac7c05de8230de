/* SPDX-License-Identifier: MIT
 *
 * Waits over several pools, accounts and delays that no other event would end: each ends, or gets an error. */
#include "pools.h"

/* --- Pools that wait for each other ------------------------------------------------------------------------------- */

struct pair {
    stint_pool *front, *back;
    atomic_uint told;   /* EAGAIN */
    atomic_uint others; /* waits that failed in another way */
    atomic_uint ran;
};

static int await(struct pair *pair, stint_pool *pool, stint_fn *fn)
{
    stint_future *future;
    int error = stint_submit(pool, fn, pair, NULL, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, NULL);
    if (error == EAGAIN)
        atomic_fetch_add(&pair->told, 1);
    else if (error != 0)
        atomic_fetch_add(&pair->others, 1);
    stint_future_release(future);
    return error;
}

static int be_called_back(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    atomic_fetch_add(&pair->ran, 1);
    return 0;
}

static int call_back(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    return await(pair, pair->front, be_called_back);
}

static int call_the_other(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    return await(pair, pair->back, call_back);
}

/* When all threads of both sleep, what each waits for lies in the queue of the other. */
TEST(two_pools_that_call_each_other_end_or_are_told)
{
    enum { REQUESTS = 40 };
    for (unsigned spares = 0; spares < 2; spares++) {
        const unsigned substitutes = spares == 0 ? STINT_NO_SUBSTITUTES : 4;
        struct pair pair = { .front = make_pool(.workers = 2, .substitutes = substitutes),
                             .back = make_pool(.workers = 2, .substitutes = substitutes) };
        stint_future *requests[REQUESTS];
        for (unsigned i = 0; i < REQUESTS; i++)
            requests[i] = submit(pair.front, call_the_other, &pair, NULL);
        for (unsigned i = 0; i < REQUESTS; i++)
            take_in_time(requests[i]);
        assert_int_equal(atomic_load(&pair.others), 0);
        assert_in_range(atomic_load(&pair.told), 1, REQUESTS);
        /* Of one that was told while it waited for the other pool, that one's task goes on. */
        assert_int_equal(stint_pool_shutdown(pair.back, STINT_SHUTDOWN_DRAIN, 60000 * MS), 0);
        assert_int_equal(stint_pool_destroy(pair.front), 0);
        assert_int_equal(stint_pool_destroy(pair.back), 0);
        assert_int_equal(atomic_load(&pair.ran), REQUESTS);
    }
}

struct circle {
    stint_future *_Atomic waiter;
    stint_future *_Atomic members[2];
    atomic_uint deadlocks;
};

static int await_in_circle(struct circle *circle, stint_future *future)
{
    int error = stint_future_wait(future, NULL);
    atomic_fetch_add(&circle->deadlocks, error == EDEADLK);
    return error;
}

static int await_the_waiter(void *arg, void **value)
{
    struct circle *circle = arg;
    (void)value;
    return await_in_circle(circle, await_pointer(&circle->waiter));
}

static int await_either(void *arg, void **value)
{
    struct circle *circle = arg;
    stint_future *members[] = { await_pointer(&circle->members[0]), await_pointer(&circle->members[1]) };
    stint_future *any;
    (void)value;
    int error = stint_when_any(members, 2, &any);
    if (error != 0)
        return error;
    error = await_in_circle(circle, any);
    stint_future_release(any);
    return error;
}

TEST(a_circle_over_any_of_two_futures_of_two_pools_is_told)
{
    for (unsigned round = 0; round < 10; round++) {
        struct circle circle = { NULL, { NULL, NULL }, 0 };
        stint_pool *pools[] = { make_pool(.workers = 3), make_pool(.workers = 2) };
        stint_future *waiter = submit(pools[0], await_either, &circle, NULL);
        atomic_store(&circle.waiter, waiter);
        for (unsigned i = 0; i < 2; i++)
            atomic_store(&circle.members[i], submit(pools[i], await_the_waiter, &circle, NULL));
        stint_future *all[] = { waiter, circle.members[0], circle.members[1] };
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(stint_future_wait_for(all[i], 60000 * MS, NULL), 0);
        assert_in_range(atomic_load(&circle.deadlocks), 1, 3);
        for (unsigned i = 0; i < 3; i++)
            stint_future_release(all[i]);
        assert_int_equal(stint_pool_destroy(pools[0]), 0);
        assert_int_equal(stint_pool_destroy(pools[1]), 0);
    }
}

/* --- An account's only slot --------------------------------------------------------------------------------------- */

struct own_slot {
    stint_pool *pool;
    stint_options options; /* of the account */
    int way;
};

enum { BY_ANY, BY_ANY_AND_A_FAR_TIME, BY_THEN, BY_TIME, BY_SERIAL, BY_GROUP, WAYS };

static int make_awaited(struct own_slot *own, stint_future **made)
{
    stint_future *futures[2] = { NULL, NULL };
    stint_serial *serial = NULL;
    stint_group *group = NULL;
    int error = 0;
    switch (own->way) {
    case BY_ANY:
    case BY_ANY_AND_A_FAR_TIME:
        error = stint_submit(own->pool, do_nothing, NULL, &own->options, &futures[0]);
        if (error == 0 && own->way == BY_ANY)
            error = stint_submit(own->pool, do_nothing, NULL, &own->options, &futures[1]);
        else if (error == 0)
            error = stint_submit_at(own->pool, do_nothing, NULL, NULL, now_ns() + 3600000 * MS, &futures[1]);
        if (error == 0)
            error = stint_when_any(futures, 2, made);
        break;
    case BY_THEN:
        error = stint_submit(own->pool, do_nothing, NULL, NULL, &futures[0]);
        if (error == 0)
            error = stint_future_then_submit(futures[0], own->pool, do_nothing_next, NULL, &own->options, made);
        break;
    case BY_TIME:
        error = stint_submit_at(own->pool, do_nothing, NULL, &own->options, now_ns() + 20 * MS, made);
        break;
    case BY_SERIAL:
        error = stint_serial_create(own->pool, 0, &serial);
        if (error == 0)
            error = stint_serial_submit(serial, do_nothing, NULL, &own->options, made);
        break;
    case BY_GROUP:
        error = stint_group_create(&group);
        if (error == 0)
            error = stint_group_submit(group, own->pool, do_nothing, NULL, &own->options);
        if (error == 0)
            error = stint_group_when_idle(group, made);
        break;
    }
    stint_serial_release(serial);
    stint_group_release(group);
    stint_future_release(futures[0]);
    stint_future_release(futures[1]);
    return error;
}

static int await_one_of_its_own_account(void *arg, void **value)
{
    struct own_slot *own = arg;
    stint_future *future;
    (void)value;
    int error = make_awaited(own, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

TEST(who_waits_for_its_own_account_in_any_way_makes_way)
{
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    for (int way = 0; way < WAYS; way++) {
        struct own_slot own = { .pool = make_pool(.workers = 2), .options = STINT_OPTIONS_INIT, .way = way };
        assert_int_equal(stint_account_create(NULL, &limits, &own.options.account), 0);
        stint_options options = own.options;
        stint_outcome outcome = take_in_time(submit(own.pool, await_one_of_its_own_account, &own, &options));
        if (outcome.status != STINT_OK)
            fail_msg("way %d: %s, %s", way, stint_reason_name(outcome.reason), strerror(outcome.error));
        assert_int_equal(stint_pool_shutdown(own.pool, STINT_SHUTDOWN_CANCEL, 60000 * MS), 0);
        assert_int_equal(stint_pool_destroy(own.pool), 0);
        stint_account_release(own.options.account);
    }
}

struct lent_slot {
    stint_pool *home, *other;
    stint_options options; /* of the account */
    atomic_uint told;
};

static int await_and_count(struct lent_slot *lent, stint_future *future)
{
    int error = stint_future_wait(future, NULL);
    atomic_fetch_add(&lent->told, error == EAGAIN);
    stint_future_release(future);
    return error;
}

static int await_the_account(void *arg, void **value)
{
    struct lent_slot *lent = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit(lent->home, do_nothing, NULL, &lent->options, &future);
    return error != 0 ? error : await_and_count(lent, future);
}

static int await_the_other_pool(void *arg, void **value)
{
    struct lent_slot *lent = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit(lent->other, await_the_account, lent, NULL, &future);
    return error != 0 ? error : await_and_count(lent, future);
}

/* Who waits for the task that is held back is no worker of its pool, and so cannot run it. */
TEST(a_wait_over_another_pool_for_what_its_own_slot_holds_back_is_told)
{
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    struct lent_slot lent = { .home = make_pool(.workers = 2),
                              .other = make_pool(.workers = 2),
                              .options = STINT_OPTIONS_INIT };
    assert_int_equal(stint_account_create(NULL, &limits, &lent.options.account), 0);
    take_in_time(submit(lent.home, await_the_other_pool, &lent, &lent.options));
    assert_int_equal(atomic_load(&lent.told), 1);
    assert_int_equal(stint_pool_shutdown(lent.other, STINT_SHUTDOWN_DRAIN, 60000 * MS), 0);
    assert_int_equal(stint_pool_destroy(lent.home), 0);
    assert_int_equal(stint_pool_destroy(lent.other), 0);
    stint_account_release(lent.options.account);
}

/* --- A queue that is full ----------------------------------------------------------------------------------------- */

struct full {
    stint_pool *pool;
    stint_options options;
    int said;
};

static int await_one_that_is_due_and_has_no_slot(void *arg, void **value)
{
    struct full *full = arg;
    stint_future *delayed;
    stint_future *queued;
    (void)value;
    while (stint_submit(full->pool, do_nothing, NULL, &full->options, &queued) == 0)
        stint_future_release(queued);
    int error = stint_submit_at(full->pool, do_nothing, NULL, &full->options, now_ns(), &delayed);
    if (error != 0)
        return error;
    full->said = stint_future_wait(delayed, NULL);
    stint_future_cancel(delayed);
    stint_future_release(delayed);
    return 0;
}

TEST(a_wait_for_what_is_due_and_has_no_slot_is_given_up_with_an_account_too)
{
    for (size_t waiting = 0; waiting < 4; waiting += 3) {
        const stint_account_limits limits = { .size = sizeof(stint_account_limits), .waiting = waiting };
        const stint_pool_options small = {
            .size = sizeof(stint_pool_options), .workers = 1, .substitutes = STINT_NO_SUBSTITUTES, .queue_capacity = 4
        };
        struct full full = { .options = STINT_OPTIONS_INIT };
        assert_int_equal(stint_pool_create(&small, &full.pool), 0);
        assert_int_equal(stint_account_create(NULL, &limits, &full.options.account), 0);
        assert_ok(take_in_time(submit(full.pool, await_one_that_is_due_and_has_no_slot, &full, NULL)));
        assert_int_equal(full.said, EAGAIN);
        assert_int_equal(stint_pool_destroy(full.pool), 0);
        stint_account_release(full.options.account);
    }
}

TEST_MAIN()
