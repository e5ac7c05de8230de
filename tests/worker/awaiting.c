/* SPDX-License-Identifier: MIT
 *
 * Waiting for a future inside a task: which waits get an error, what runs meanwhile, with which budget, and when
 * interrupts come. */
#include "pools.h"

struct inner {
    stint_pool *pool;
    struct gate gate; /* opened when future below is set */
    stint_future *future;
    stint_future *child; /* of those that it has submitted */
    atomic_uint ran;
    int wait, wait_for;
    stint_outcome outcome;
};

static int wait_for_itself(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    inner->wait = stint_future_wait(inner->future, NULL);
    inner->wait_for = stint_future_wait_for(inner->future, STINT_FOREVER, NULL);
    return 0;
}

TEST(a_task_that_waits_for_itself_is_told)
{
    struct inner inner = { .pool = make_pool(.workers = 1) };
    assert_int_equal(stint_submit(inner.pool, wait_for_itself, &inner, NULL, &inner.future), 0);
    assert_int_equal(take(inner.future).status, STINT_OK);
    assert_int_equal(inner.wait, EDEADLK);
    assert_int_equal(inner.wait_for, EDEADLK);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
}

static int submit_one_that_waits_for_me(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    stint_future *child;
    int error = stint_submit(inner->pool, wait_for_itself, inner, NULL, &child);
    if (error != 0)
        return error;
    error = stint_future_wait(child, NULL);
    stint_future_release(child);
    return error;
}

TEST(a_task_run_by_its_waiter_cannot_wait_for_that_waiter)
{
    struct inner inner = { .pool = make_pool(.workers = 1) };
    assert_int_equal(stint_submit(inner.pool, submit_one_that_waits_for_me, &inner, NULL, &inner.future), 0);
    assert_int_equal(take(inner.future).status, STINT_OK);
    assert_int_equal(inner.wait, EDEADLK);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
}

static int only_look(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    stint_future *child;
    int error = stint_submit(inner->pool, count_run, &inner->ran, NULL, &child);
    if (error != 0)
        return error;
    inner->wait_for = stint_future_wait_for(child, 1000000, NULL);
    unsigned ran = atomic_load(&inner->ran);
    inner->wait = stint_future_wait(child, NULL);
    stint_future_release(child);
    return ran == 0 && atomic_load(&inner->ran) == 1 ? 0 : EPROTO;
}

TEST(an_awaited_queued_task_is_run_by_its_waiter_but_not_by_a_timed_wait)
{
    struct inner inner;
    memset(&inner, 0, sizeof inner);
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = 1,
                                         .substitutes = STINT_NO_SUBSTITUTES };
    assert_int_equal(stint_pool_create(&options, &inner.pool), 0);
    assert_int_equal(take(submit(inner.pool, only_look, &inner, NULL)).status, STINT_OK);
    assert_int_equal(inner.wait_for, ETIMEDOUT);
    assert_int_equal(inner.wait, 0);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
}

static int allocate_64k(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 64; i++) {
        void *block = stint_malloc(1024);
        if (block == NULL)
            return ENOMEM;
        stint_free(block);
    }
    return 0;
}

static int await_a_hungry_child(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = inner->ran;
    stint_future *child;
    int error = stint_submit(inner->pool, allocate_64k, NULL, &options, &child);
    if (error != 0)
        return error;
    error = stint_future_wait(child, &inner->outcome);
    stint_future_release(child);
    return error;
}

TEST(a_task_run_by_its_waiter_has_its_own_budget_and_outcome)
{
    struct inner inner = { .pool = make_pool(.workers = 1) };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 16384; /* the waiter's: less than its child takes */
    stint_outcome outcome = take(submit(inner.pool, await_a_hungry_child, &inner, &options));
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(inner.outcome.status, STINT_OK);
    assert_true(inner.outcome.usage.allocated >= 65536);
    assert_true(outcome.usage.allocated < 16384);

    atomic_store(&inner.ran, 4096); /* the child's own limit */
    outcome = take(submit(inner.pool, await_a_hungry_child, &inner, &options));
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(inner.outcome.status, STINT_ERROR);
    assert_int_equal(inner.outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
}

static int await_a_child_that_cancels_me(void *arg, void **value);

static int cancel_my_waiter(void *arg, void **value)
{
    struct inner *inner = arg;
    *value = inner;
    stint_future_cancel(inner->future);
    void *block = stint_malloc(100); /* a sample point: but the interrupt is not this task's */
    stint_free(block);
    stint_checkpoint();
    atomic_fetch_add(&inner->ran, 1);
    return 0;
}

static int await_a_child_that_cancels_me(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    int error = stint_submit(inner->pool, cancel_my_waiter, inner, NULL, &inner->child);
    if (error != 0)
        return error;
    inner->wait = stint_future_wait(inner->child, &inner->outcome);
    atomic_fetch_add(&inner->ran, 1000); /* not reached by a task that jumps */
    return 0;
}

TEST(an_interrupt_of_the_waiter_is_delivered_when_the_wait_has_ended)
{
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (int i = 0; i < 2; i++) {
        struct inner inner = { .pool = make_pool(.workers = 1) };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i];
        assert_int_equal(stint_submit(inner.pool, await_a_child_that_cancels_me, &inner, &options, &inner.future), 0);
        stint_outcome outcome = take(inner.future);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        assert_int_equal(inner.outcome.status, STINT_OK);
        assert_ptr_equal(inner.outcome.value, &inner);
        assert_int_equal(atomic_load(&inner.ran), modes[i] == STINT_JUMP ? 1 : 1001);
        stint_future_release(inner.child);
        assert_int_equal(stint_pool_destroy(inner.pool), 0);
    }
}

#define LOOPS 20000

static int submit_and_await_in_turn(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    for (int i = 0; i < LOOPS; i++) {
        stint_future *child;
        int error = stint_submit(inner->pool, count_run, &inner->ran, NULL, &child);
        if (error != 0)
            return error;
        stint_future_wait(child, NULL);
        stint_future_release(child);
    }
    return 0;
}

#define AHEAD 50

static int await_the_oldest_of_many(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    stint_future *children[AHEAD];
    for (int i = 0; i < LOOPS + AHEAD; i++) {
        if (i >= AHEAD) {
            stint_future_wait(children[i % AHEAD], NULL);
            stint_future_release(children[i % AHEAD]);
        }
        int error = i < LOOPS ? stint_submit(inner->pool, count_run, &inner->ran, NULL, &children[i % AHEAD]) : 0;
        if (error != 0)
            return error;
    }
    return 0;
}

/* If a waiter runs a task itself, the task's entry stays in the deque: such entries must not fill it. */
TEST(a_task_can_submit_and_await_without_end)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct inner inner = { .pool = make_pool(.workers = workers, .queue_capacity = 1) };
        stint_outcome outcome = take(submit(inner.pool, submit_and_await_in_turn, &inner, NULL));
        assert_int_equal(outcome.error, 0);
        outcome = take(submit(inner.pool, await_the_oldest_of_many, &inner, NULL));
        assert_int_equal(outcome.error, 0);
        assert_int_equal(atomic_load(&inner.ran), 2 * LOOPS);
        assert_int_equal(stint_pool_destroy(inner.pool), 0);
    }
}

static int await_another(void *arg, void **value)
{
    struct inner *inner = arg;
    (void)value;
    gate_hold(&inner->gate, value);
    inner->wait = stint_future_wait(inner->future, &inner->outcome);
    return 0;
}

TEST(a_task_that_already_runs_elsewhere_is_waited_for)
{
    struct inner inner = { .pool = make_pool(.workers = 2) };
    struct gate gate = { 0 };
    inner.future = submit(inner.pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *waiter = submit(inner.pool, await_another, &inner, NULL);
    gate_open(&inner.gate);
    gate_await(&inner.gate, 1);
    assert_false(stint_future_is_ready(waiter));
    gate_open(&gate);
    assert_int_equal(take(waiter).status, STINT_OK);
    assert_int_equal(inner.wait, 0);
    assert_int_equal(inner.outcome.status, STINT_OK);
    stint_future_release(inner.future);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
}

TEST_MAIN()
