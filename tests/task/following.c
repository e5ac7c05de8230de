/* SPDX-License-Identifier: MIT
 *
 * Tasks that start when a future has resolved. */
#include "pools.h"

struct seen {
    atomic_uint count;
    stint_outcome outcome;
    bool is_task;
    int code;
};

static int see(const stint_outcome *outcome, void *arg, void **value)
{
    struct seen *seen = arg;
    stint_usage usage;
    seen->outcome = *outcome;
    seen->is_task = stint_usage_now(&usage, NULL) == 0;
    *value = outcome->value;
    stint_free(keep(stint_malloc(1000)));
    atomic_fetch_add(&seen->count, 1);
    return seen->code;
}

static stint_future *then_submit(stint_future *future, stint_pool *pool, struct seen *seen)
{
    stint_future *next;
    assert_int_equal(stint_future_then_submit(future, pool, see, seen, NULL, &next), 0);
    return next;
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, give, NULL, NULL);
    stint_future *next;
    assert_int_equal(stint_future_then_submit(NULL, pool, see, NULL, NULL, &next), EINVAL);
    assert_int_equal(stint_future_then_submit(future, NULL, see, NULL, NULL, &next), EINVAL);
    assert_int_equal(stint_future_then_submit(future, pool, NULL, NULL, NULL, &next), EINVAL);
    assert_int_equal(stint_future_then_submit(future, pool, see, NULL, NULL, NULL), EINVAL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_future_then_submit(future, pool, see, NULL, NULL, &next), ESHUTDOWN);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_next_task_is_given_the_outcome_and_has_one_of_its_own)
{
    for (int resolved = 0; resolved < 2; resolved++) {
        stint_pool *pool = make_pool(.workers = 2);
        struct gate gate = { 0 };
        int number = 0;
        struct seen seen = { .code = 0 };
        struct seen after = { .code = 7 };
        stint_future *future = submit(pool, give, &number, NULL);
        stint_future *held = submit(pool, gate_hold, &gate, NULL);
        stint_future *both[] = { future, held };
        stint_future *all;
        if (resolved)
            assert_int_equal(stint_future_wait(future, NULL), 0);
        stint_future *next = then_submit(future, pool, &seen);
        assert_int_equal(stint_when_all(both, 2, &all), 0);
        stint_future *last = then_submit(all, pool, &after);
        stint_future_release(all);
        stint_future_release(future);
        stint_outcome outcome = take(next);
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, &number);
        assert_true(outcome.usage.allocated >= 1000);
        assert_ptr_equal(seen.outcome.value, &number);
        assert_true(seen.is_task);
        assert_false(stint_future_is_ready(last));
        gate_open(&gate);
        assert_outcome(take(last), STINT_ERROR, STINT_REASON_FAILED, 7);
        assert_int_equal(after.outcome.status, STINT_OK);
        stint_future_release(held);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* Cancelling the next one leaves the first as it is; cancelling the first lets the next one run. */
TEST(either_of_the_two_can_be_cancelled)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct seen seen = { .code = 0 };
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *first = submit(pool, give, NULL, NULL);
    stint_future *cancelled = then_submit(first, pool, &seen);
    stint_future *next = then_submit(first, pool, &seen);
    stint_future_cancel(cancelled);
    assert_cancelled(take(cancelled), STINT_REASON_TOKEN);
    assert_false(stint_future_is_ready(first));
    stint_future_cancel(first);
    gate_open(&gate);
    assert_ok(take(next));
    assert_cancelled(seen.outcome, STINT_REASON_TOKEN);
    assert_int_equal(atomic_load(&seen.count), 1);
    stint_future_release(first);
    stint_future_release(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_payload_of_a_released_future_is_there_for_the_next_task)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct seen seen = { .code = 0 };
    stint_pool *other = make_pool(.workers = 1);
    stint_future *held = submit(other, gate_hold_interruptibly, &gate, NULL);
    stint_future *next = then_submit(held, pool, &seen);
    stint_future_release(held);
    gate_await(&gate, 1);
    assert_int_equal(stint_pool_destroy(other), 0); /* cancels it */
    assert_ok(take(next));
    assert_cancelled(seen.outcome, STINT_REASON_SHUTDOWN);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_shutdown_ends_those_whose_future_has_not_resolved)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_pool *other = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct seen seen[3] = { 0 };
    stint_future *held = submit(other, gate_hold, &gate, NULL);
    stint_future *next = then_submit(held, pool, &seen[0]);
    stint_future *after = then_submit(next, other, &seen[1]);
    stint_future *last = then_submit(next, pool, &seen[2]);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_cancelled(take(next), STINT_REASON_SHUTDOWN);
    assert_cancelled(take(last), STINT_REASON_SHUTDOWN);
    assert_int_equal(stint_pool_destroy(pool), 0);
    gate_open(&gate);
    assert_ok(take(after));
    assert_cancelled(seen[1].outcome, STINT_REASON_SHUTDOWN);
    assert_int_equal(atomic_load(&seen[0].count) + atomic_load(&seen[2].count), 0);
    stint_future_release(held);
    assert_int_equal(stint_pool_destroy(other), 0);
}

struct inside {
    stint_pool *pool;
    struct seen seen;
    int error;
};

static int follow_and_wait(void *arg, void **value)
{
    struct inside *inside = arg;
    stint_future *first;
    stint_future *next;
    (void)value;
    int error = stint_submit(inside->pool, give, inside, NULL, &first);
    if (error != 0)
        return error;
    error = stint_future_then_submit(first, inside->pool, see, &inside->seen, NULL, &next);
    if (error == 0) {
        error = stint_future_wait(next, NULL);
        stint_future_release(next);
    }
    stint_future_release(first);
    return error;
}

TEST(a_task_may_wait_for_what_it_chained)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct inside inside = { .pool = make_pool(.workers = workers) };
        assert_ok(take(submit(inside.pool, follow_and_wait, &inside, NULL)));
        assert_int_equal(atomic_load(&inside.seen.count), 1);
        assert_int_equal(stint_pool_destroy(inside.pool), 0);
    }
}

#define LINKS 20000

static int count_link(const stint_outcome *outcome, void *arg, void **value)
{
    (void)outcome;
    (void)value;
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

TEST(a_long_chain_takes_no_stack)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    atomic_uint count = 0;
    stint_future *last = submit(pool, gate_hold, &gate, NULL);
    for (int i = 0; i < LINKS; i++) {
        stint_future *next;
        assert_int_equal(stint_future_then_submit(last, pool, count_link, &count, NULL, &next), 0);
        stint_future_release(last);
        last = next;
    }
    gate_open(&gate);
    assert_ok(take(last));
    assert_int_equal(atomic_load(&count), LINKS);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Chains that are made, cancelled and shut down while their futures resolve: each resolves once, and says what
 * happened. */
TEST(chains_may_be_cut_at_any_time)
{
    for (int round = 0; round < 300; round++) {
        stint_pool *pool = make_pool(.workers = 2);
        stint_pool *other = make_pool(.workers = 1);
        struct seen seen[8] = { 0 };
        stint_future *futures[8];
        stint_future *first = submit(other, give, NULL, NULL);
        for (int i = 0; i < 8; i++)
            futures[i] = then_submit(i < 4 ? first : futures[i - 4], pool, &seen[i]);
        for (int i = 0; i < round % 7; i++)
            sched_yield();
        stint_future_cancel(futures[round % 8]);
        assert_int_equal(stint_pool_destroy(round % 2 == 0 ? pool : other), 0);
        assert_int_equal(stint_pool_destroy(round % 2 == 0 ? other : pool), 0);
        for (int i = 0; i < 8; i++) {
            stint_outcome outcome = take(futures[i]);
            if (atomic_load(&seen[i].count) == 0)
                assert_int_equal(outcome.status, STINT_CANCELLED);
        }
        stint_future_release(first);
    }
}

TEST_MAIN()
