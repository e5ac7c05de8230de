/* SPDX-License-Identifier: MIT
 *
 * The future: waiting from outside and from inside tasks, cancelling, releasing, and outliving the pool. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stint/stint.h>

#include "gate.h"

static stint_pool *make_pool(unsigned workers, size_t queue_capacity)
{
    stint_pool *pool;
    const stint_pool_options options = { .workers = workers, .queue_capacity = queue_capacity };
    assert_int_equal(stint_pool_create(&pool, &options), 0);
    return pool;
}

static stint_future *submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, options, &future), 0);
    return future;
}

static stint_outcome take(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

static int count(void *arg, void **value)
{
    *value = arg;
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static void assert_cancelled(const stint_outcome *outcome, stint_reason reason)
{
    assert_int_equal(outcome->status, STINT_CANCELLED);
    assert_int_equal(outcome->reason, reason);
    assert_int_equal(outcome->error, ECANCELED);
    assert_null(outcome->value);
}

static void null_is_refused_or_ignored(void **state)
{
    (void)state;
    stint_outcome outcome;
    assert_false(stint_future_ready(NULL));
    assert_int_equal(stint_future_wait(NULL, &outcome), EINVAL);
    assert_int_equal(stint_future_wait_for(NULL, 0, &outcome), EINVAL);
    stint_future_cancel(NULL);
    stint_future_release(NULL);
}

static void a_wait_with_a_timeout_gives_up_and_leaves_the_outcome_alone(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    struct gate gate = { 0 };
    stint_future *future = submit(pool, gate_hold, &gate, NULL);
    stint_outcome outcome, untouched;
    memset(&outcome, 0x5a, sizeof outcome);
    memset(&untouched, 0x5a, sizeof untouched);
    assert_int_equal(stint_future_wait_for(future, 0, &outcome), ETIMEDOUT);
    assert_int_equal(stint_future_wait_for(future, 1, &outcome), ETIMEDOUT);
    assert_int_equal(stint_future_wait_for(future, 3000000, &outcome), ETIMEDOUT);
    assert_memory_equal(&outcome, &untouched, sizeof outcome);
    assert_false(stint_future_ready(future));
    gate_open(&gate);
    assert_int_equal(stint_future_wait_for(future, STINT_FOREVER, &outcome), 0);
    assert_true(stint_future_ready(future));
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

static void all_waiters_get_the_same_outcome(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    for (int round = 0; round < 200; round++) {
        struct gate gate = { 0 };
        atomic_uint ran = 0;
        stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
        struct waiter waiters[4];
        waiters[0].future = submit(pool, count, &ran, NULL);
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

static void a_cancelled_queued_task_resolves_at_once_and_never_starts(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    stint_future *future = submit(pool, count, &ran, NULL);
    stint_future *behind = submit(pool, count, &ran, NULL);
    gate_await(&gate, 1);
    stint_future_cancel(future);
    assert_true(stint_future_ready(future));
    stint_outcome outcome;
    assert_int_equal(stint_future_wait_for(future, 0, &outcome), 0);
    assert_cancelled(&outcome, STINT_REASON_TOKEN);
    stint_future_cancel(future);
    stint_future_release(future);
    gate_open(&gate);
    assert_int_equal(take(behind).status, STINT_OK);
    assert_int_equal(atomic_load(&ran), 1);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void a_cancelled_running_task_is_interrupted(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (int i = 0; i < 2; i++) {
        struct gate gate = { 0 };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i];
        stint_future *future = submit(pool, gate_hold_interruptibly, &gate, &options);
        gate_await(&gate, 1);
        stint_future_cancel(future);
        stint_outcome outcome = take(future);
        assert_cancelled(&outcome, STINT_REASON_TOKEN);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void cancelling_a_resolved_task_changes_nothing(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    atomic_uint ran = 0;
    stint_future *future = submit(pool, count, &ran, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_cancel(future);
    assert_int_equal(take(future).status, STINT_OK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void a_set_token_keeps_a_queued_task_from_starting(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_token *root, *token;
    assert_int_equal(stint_token_create(&root, NULL), 0);
    assert_int_equal(stint_token_create(&token, root), 0);
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    stint_options options = STINT_OPTIONS_INIT;
    options.token = token;
    stint_future *future = submit(pool, count, &ran, &options);
    stint_token_release(token); /* the task holds its own */
    stint_token_set(root);
    stint_token_release(root);
    gate_open(&gate);
    stint_outcome outcome = take(future);
    assert_cancelled(&outcome, STINT_REASON_TOKEN);
    assert_int_equal(atomic_load(&ran), 0);
    stint_future_release(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void a_deadline_that_passes_in_the_queue_keeps_the_task_from_starting(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 1;
    stint_future *future = submit(pool, count, &ran, &options);
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

static void a_task_runs_although_its_future_was_released(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *blocker = submit(pool, gate_hold, &gate, NULL);
    for (int i = 0; i < 10; i++)
        stint_future_release(submit(pool, count, &ran, NULL));
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

static void a_future_and_its_value_outlive_the_pool(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(1, 0);
    stint_future *future = submit(pool, make_text, NULL, NULL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_true(stint_future_ready(future));
    stint_future_cancel(future);
    stint_outcome outcome = take(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_string_equal(outcome.value, "kept");
    stint_free(outcome.value);
}

/* --- Waiting inside tasks ----------------------------------------------------------------------------------------- */

struct inner {
    stint_pool *pool;
    struct gate gate; /* opened when future below is set */
    stint_future *future;
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

static void a_task_that_waits_for_itself_is_told(void **state)
{
    (void)state;
    struct inner inner = { .pool = make_pool(1, 0) };
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

static void a_task_run_by_its_waiter_cannot_wait_for_that_waiter(void **state)
{
    (void)state;
    struct inner inner = { .pool = make_pool(1, 0) };
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
    int error = stint_submit(inner->pool, count, &inner->ran, NULL, &child);
    if (error != 0)
        return error;
    inner->wait_for = stint_future_wait_for(child, 1000000, NULL);
    unsigned ran = atomic_load(&inner->ran);
    inner->wait = stint_future_wait(child, NULL);
    stint_future_release(child);
    return ran == 0 && atomic_load(&inner->ran) == 1 ? 0 : EPROTO;
}

static void an_awaited_queued_task_is_run_by_its_waiter_but_not_by_a_timed_wait(void **state)
{
    (void)state;
    struct inner inner;
    memset(&inner, 0, sizeof inner);
    const stint_pool_options options = { .workers = 1, .spares = STINT_NO_SPARES };
    assert_int_equal(stint_pool_create(&inner.pool, &options), 0);
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

static void a_task_run_by_its_waiter_has_its_own_budget_and_outcome(void **state)
{
    (void)state;
    struct inner inner = { .pool = make_pool(1, 0) };
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
    stint_future *child;
    int error = stint_submit(inner->pool, cancel_my_waiter, inner, NULL, &child);
    if (error != 0)
        return error;
    inner->wait = stint_future_wait(child, &inner->outcome);
    atomic_fetch_add(&inner->ran, 1000); /* not reached by a task that jumps */
    return 0;
}

static void an_interrupt_of_the_waiter_is_delivered_when_the_wait_has_ended(void **state)
{
    (void)state;
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (int i = 0; i < 2; i++) {
        struct inner inner = { .pool = make_pool(1, 0) };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i];
        assert_int_equal(stint_submit(inner.pool, await_a_child_that_cancels_me, &inner, &options, &inner.future), 0);
        stint_outcome outcome = take(inner.future);
        assert_cancelled(&outcome, STINT_REASON_TOKEN);
        assert_int_equal(inner.outcome.status, STINT_OK);
        assert_ptr_equal(inner.outcome.value, &inner);
        assert_int_equal(atomic_load(&inner.ran), modes[i] == STINT_JUMP ? 1 : 1001);
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
        int error = stint_submit(inner->pool, count, &inner->ran, NULL, &child);
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
        int error = i < LOOPS ? stint_submit(inner->pool, count, &inner->ran, NULL, &children[i % AHEAD]) : 0;
        if (error != 0)
            return error;
    }
    return 0;
}

/* What a waiter runs itself leaves its entry behind: such entries must not fill the deque up. */
static void a_task_can_submit_and_await_without_end(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct inner inner = { .pool = make_pool(workers, 1) };
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

static void a_task_that_already_runs_elsewhere_is_waited_for(void **state)
{
    (void)state;
    struct inner inner = { .pool = make_pool(2, 0) };
    struct gate gate = { 0 };
    inner.future = submit(inner.pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *waiter = submit(inner.pool, await_another, &inner, NULL);
    gate_open(&inner.gate);
    gate_await(&inner.gate, 1);
    assert_false(stint_future_ready(waiter));
    gate_open(&gate);
    assert_int_equal(take(waiter).status, STINT_OK);
    assert_int_equal(inner.wait, 0);
    assert_int_equal(inner.outcome.status, STINT_OK);
    stint_future_release(inner.future);
    assert_int_equal(stint_pool_destroy(inner.pool), 0);
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
static void a_task_may_release_its_own_future_before_its_submission_returns(void **state)
{
    (void)state;
    stint_pool *pool;
    const stint_pool_options pool_options = { .workers = 2 };
    stint_account *account;
    assert_int_equal(stint_pool_create(&pool, &pool_options), 0);
    assert_int_equal(stint_account_create(&account, NULL, NULL), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_refused_or_ignored),
        cmocka_unit_test(a_wait_with_a_timeout_gives_up_and_leaves_the_outcome_alone),
        cmocka_unit_test(all_waiters_get_the_same_outcome),
        cmocka_unit_test(a_cancelled_queued_task_resolves_at_once_and_never_starts),
        cmocka_unit_test(a_cancelled_running_task_is_interrupted),
        cmocka_unit_test(cancelling_a_resolved_task_changes_nothing),
        cmocka_unit_test(a_set_token_keeps_a_queued_task_from_starting),
        cmocka_unit_test(a_deadline_that_passes_in_the_queue_keeps_the_task_from_starting),
        cmocka_unit_test(a_task_runs_although_its_future_was_released),
        cmocka_unit_test(a_future_and_its_value_outlive_the_pool),
        cmocka_unit_test(a_task_that_waits_for_itself_is_told),
        cmocka_unit_test(a_task_run_by_its_waiter_cannot_wait_for_that_waiter),
        cmocka_unit_test(an_awaited_queued_task_is_run_by_its_waiter_but_not_by_a_timed_wait),
        cmocka_unit_test(a_task_run_by_its_waiter_has_its_own_budget_and_outcome),
        cmocka_unit_test(an_interrupt_of_the_waiter_is_delivered_when_the_wait_has_ended),
        cmocka_unit_test(a_task_can_submit_and_await_without_end),
        cmocka_unit_test(a_task_that_already_runs_elsewhere_is_waited_for),
        cmocka_unit_test(a_task_may_release_its_own_future_before_its_submission_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
