/* SPDX-License-Identifier: MIT
 *
 * The future: waiting from outside, cancelling, releasing, and outliving the pool. What a wait inside a task does:
 * awaiting.c. */
#include "pools.h"

TEST(null_is_refused_or_ignored)
{
    stint_outcome outcome;
    assert_false(stint_future_is_ready(NULL));
    assert_int_equal(stint_future_wait(NULL, &outcome), EINVAL);
    assert_int_equal(stint_future_wait_for(NULL, 0, &outcome), EINVAL);
    stint_future_cancel(NULL);
    stint_future_release(NULL);
}

TEST(a_wait_with_a_timeout_gives_up_and_leaves_the_outcome_alone)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *future = submit(pool, gate_hold, &gate, NULL);
    stint_outcome outcome, untouched;
    memset(&outcome, 0x5a, sizeof outcome);
    memset(&untouched, 0x5a, sizeof untouched);
    assert_int_equal(stint_future_wait_for(future, 0, &outcome), ETIMEDOUT);
    assert_int_equal(stint_future_wait_for(future, 1, &outcome), ETIMEDOUT);
    assert_int_equal(stint_future_wait_for(future, 3000000, &outcome), ETIMEDOUT);
    assert_memory_equal(&outcome, &untouched, sizeof outcome);
    assert_false(stint_future_is_ready(future));
    gate_open(&gate);
    assert_int_equal(stint_future_wait_for(future, STINT_FOREVER, &outcome), 0);
    assert_true(stint_future_is_ready(future));
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(stint_future_wait_for(future, 0, NULL), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct waiter {
    stint_future *future;
    stint_outcome outcome;
    pthread_t thread;
    int error;
};

static void *wait_here(void *arg)
{
    struct waiter *waiter = arg;
    waiter->error = stint_future_wait(waiter->future, &waiter->outcome);
    return NULL;
}

TEST(all_waiters_get_the_same_outcome)
{
    stint_pool *pool = make_pool(.workers = 1);
    for (int round = 0; round < 200; round++) {
        struct gate gate = { 0 };
        atomic_uint ran = 0;
        stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
        struct waiter waiters[4];
        waiters[0].future = submit(pool, count_run, &ran, NULL);
        for (int i = 0; i < 4; i++) {
            waiters[i].future = waiters[0].future;
            assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_here, &waiters[i]), 0);
        }
        gate_open(&gate);
        for (int i = 0; i < 4; i++) {
            pthread_join(waiters[i].thread, NULL);
            assert_int_equal(waiters[i].error, 0);
            assert_int_equal(waiters[i].outcome.status, STINT_OK);
            assert_ptr_equal(waiters[i].outcome.value, &ran);
        }
        assert_int_equal(atomic_load(&ran), 1);
        stint_future_release(waiters[0].future);
        stint_future_release(blocker);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Cancelling --------------------------------------------------------------------------------------------------- */

TEST(a_cancelled_queued_task_resolves_at_once_and_never_starts)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    stint_future *future = submit(pool, count_run, &ran, NULL);
    stint_future *behind = submit(pool, count_run, &ran, NULL);
    gate_await(&gate, 1);
    stint_future_cancel(future);
    assert_true(stint_future_is_ready(future));
    stint_outcome outcome;
    assert_int_equal(stint_future_wait_for(future, 0, &outcome), 0);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    stint_future_cancel(future);
    stint_future_release(future);
    gate_open(&gate);
    assert_int_equal(take(behind).status, STINT_OK);
    assert_int_equal(atomic_load(&ran), 1);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_cancelled_running_task_is_interrupted)
{
    stint_pool *pool = make_pool(.workers = 1);
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (int i = 0; i < 2; i++) {
        struct gate gate = { 0 };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i];
        stint_future *future = submit(pool, gate_hold_interruptibly, &gate, &options);
        gate_await(&gate, 1);
        stint_future_cancel(future);
        stint_outcome outcome = take(future);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(cancelling_a_resolved_task_changes_nothing)
{
    stint_pool *pool = make_pool(.workers = 1);
    atomic_uint ran = 0;
    stint_future *future = submit(pool, count_run, &ran, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_cancel(future);
    assert_int_equal(take(future).status, STINT_OK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_set_token_keeps_a_queued_task_from_starting)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_token *root, *token;
    assert_int_equal(stint_token_create(NULL, &root), 0);
    assert_int_equal(stint_token_create(root, &token), 0);
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    stint_options options = STINT_OPTIONS_INIT;
    options.token = token;
    stint_future *future = submit(pool, count_run, &ran, &options);
    stint_token_release(token); /* the task holds its own */
    stint_token_set(root);
    stint_token_release(root);
    gate_open(&gate);
    stint_outcome outcome = take(future);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    assert_int_equal(atomic_load(&ran), 0);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_deadline_that_passes_in_the_queue_keeps_the_task_from_starting)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 1;
    stint_future *future = submit(pool, count_run, &ran, &options);
    gate_open(&gate);
    stint_outcome outcome = take(future);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_EXPIRED);
    assert_int_equal(outcome.error, ETIMEDOUT);
    assert_true(outcome.usage.queued_ns >= 1);
    assert_int_equal(atomic_load(&ran), 0);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Releasing ---------------------------------------------------------------------------------------------------- */

TEST(a_task_runs_although_its_future_was_released)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    for (int i = 0; i < 10; i++)
        stint_future_release(submit(pool, count_run, &ran, NULL));
    gate_open(&gate);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(atomic_load(&ran), 10);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int make_text(void *arg, void **value)
{
    (void)arg;
    *value = stint_strdup("kept");
    return 0;
}

TEST(a_future_and_its_value_outlive_the_pool)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, make_text, NULL, NULL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_true(stint_future_is_ready(future));
    stint_future_cancel(future);
    stint_outcome outcome = take(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_string_equal(outcome.value, "kept");
    stint_free(outcome.value);
}

/* future is set before the task can start. */
struct orphan {
    stint_future *future;
    atomic_bool done;
};

static int release_its_own_future(void *arg, void **value)
{
    struct orphan *orphan = arg;
    (void)value;
    stint_future_release(orphan->future);
    atomic_store(&orphan->done, true);
    return 0;
}

/* Its submitter must not look at it any more by then: for AddressSanitizer and ThreadSanitizer to see. */
TEST(a_task_may_release_its_own_future_before_its_submission_returns)
{
    stint_pool *pool;
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 2 };
    stint_account *account;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    for (int i = 0; i < 20000; i++) {
        struct orphan orphan = { .done = false };
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.wall_ns = i % 2 == 0 ? UINT64_C(10000000000) : 0;
        options.account = i % 4 < 2 ? account : NULL;
        assert_int_equal(stint_submit(pool, release_its_own_future, &orphan, &options, &orphan.future), 0);
        while (!atomic_load(&orphan.done))
            sched_yield();
    }
    stint_account_release(account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void *release_one(void *future)
{
    stint_outcome outcome;
    int error = stint_future_wait(future, &outcome);
    bool whole = error == 0 && outcome.payload_size == 4 && strcmp(outcome.payload, "why") == 0;
    stint_future_release(future);
    return whole ? future : NULL;
}

static int fail_with_a_reason(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return stint_fail(5, "why", 4);
}

TEST(a_future_and_its_payload_live_until_the_last_reference_is_given_back)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, fail_with_a_reason, NULL, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(stint_future_retain(future), future);
        assert_int_equal(pthread_create(&threads[i], NULL, release_one, future), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *whole;
        pthread_join(threads[i], &whole);
        assert_ptr_equal(whole, future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_ptr_equal(release_one(future), future);
    assert_null(stint_future_retain(NULL));
}

TEST(a_compound_future_can_be_retained)
{
    stint_pool *pool = make_pool(.workers = 1);
    atomic_uint counted = 0;
    stint_future *members[2] = { submit(pool, count_run, &counted, NULL), submit(pool, count_run, &counted, NULL) };
    stint_future *all;
    assert_int_equal(stint_when_all(members, 2, &all), 0);
    stint_future_release(stint_future_retain(all));
    stint_future_release(members[0]);
    stint_future_release(members[1]);
    assert_int_equal(take(all).status, STINT_OK);
    assert_int_equal(atomic_load(&counted), 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int next_to_nothing(const stint_outcome *outcome, void *arg, void **value)
{
    (void)outcome;
    return count_run(arg, value);
}

/* Each way to a future, with arguments that are refused; the future is never one that was not made. */
static void assert_no_future(stint_pool *pool, stint_serial *serial, stint_future *resolved,
                             const stint_options *options, int expected)
{
    stint_future *const untouched = (stint_future *)(uintptr_t)8;
    stint_future *future[6];
    atomic_uint counted = 0;
    for (size_t i = 0; i < 6; i++)
        future[i] = untouched;
    assert_int_equal(stint_submit(pool, count_run, &counted, options, &future[0]), expected);
    assert_int_equal(stint_submit_wait(pool, count_run, &counted, options, 0, &future[1]), expected);
    assert_int_equal(stint_submit_at(pool, count_run, &counted, options, 1, &future[2]), expected);
    assert_int_equal(stint_submit_every(pool, count_run, &counted, options, 1, 1, &future[3]), expected);
    assert_int_equal(stint_serial_submit(serial, count_run, &counted, options, &future[4]), expected);
    assert_int_equal(stint_future_then_submit(resolved, pool, next_to_nothing, &counted, options, &future[5]),
                     expected);
    for (size_t i = 0; i < 6; i++)
        assert_null(future[i]);
    assert_int_equal(atomic_load(&counted), 0);
}

TEST(no_future_is_left_by_what_was_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_serial *serial;
    stint_future *resolved, *all = (stint_future *)(uintptr_t)8, *any = all, *idle = all;
    assert_int_equal(stint_serial_create(pool, 0, &serial), 0);
    assert_int_equal(stint_when_all(NULL, 0, &resolved), 0);
    stint_options unknown = STINT_OPTIONS_INIT;
    unknown.flags = ~0U;
    assert_no_future(pool, serial, resolved, &unknown, EINVAL);
    unknown.size = 0;
    assert_no_future(pool, serial, resolved, &unknown, EINVAL);
    assert_int_equal(stint_when_all(NULL, 1, &all), EINVAL);
    assert_int_equal(stint_when_any(NULL, 0, &any), EINVAL);
    assert_int_equal(stint_group_when_idle(NULL, &idle), EINVAL);
    assert_null(all);
    assert_null(any);
    assert_null(idle);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_no_future(pool, serial, resolved, NULL, ESHUTDOWN);
    stint_future_release(resolved);
    stint_serial_release(serial);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
