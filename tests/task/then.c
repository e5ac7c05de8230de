/* SPDX-License-Identifier: MIT
 *
 * stint_future_then: when and where a callback is called, and what it may do there. */
#include "calls.h"

TEST(a_null_future_or_callback_is_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, give, NULL, NULL);
    assert_int_equal(stint_future_then(NULL, note, NULL), EINVAL);
    assert_int_equal(stint_future_then(future, NULL, NULL), EINVAL);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_callback_of_a_resolved_future_is_called_at_once_by_the_caller)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, give, pool, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    struct call call = { 0 };
    assert_int_equal(stint_future_then(future, note, &call), 0);
    assert_int_equal(atomic_load(&call.count), 1);
    assert_true(pthread_equal(call.thread, pthread_self()));
    assert_ptr_equal(call.future, future);
    assert_int_equal(call.outcome.status, STINT_OK);
    assert_ptr_equal(call.outcome.value, pool);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(callbacks_of_a_running_task_are_called_by_its_worker_in_order)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint clock = 0;
    struct call calls[5] = { 0 };
    stint_future *future = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    for (int i = 0; i < 5; i++) {
        calls[i].clock = &clock;
        assert_int_equal(stint_future_then(future, note, &calls[i]), 0);
    }
    assert_int_equal(atomic_load(&clock), 0);
    stint_future_release(future); /* the callbacks come nevertheless */
    gate_open(&gate);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(atomic_load(&calls[i].count), 1);
        assert_int_equal(calls[i].turn, i);
        assert_false(pthread_equal(calls[i].thread, pthread_self()));
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_callback_of_a_cancelled_queued_task_is_called_by_the_canceller)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct call call = { 0 };
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *future = submit(pool, give, NULL, NULL);
    assert_int_equal(stint_future_then(future, note, &call), 0);
    stint_future_cancel(future);
    assert_int_equal(atomic_load(&call.count), 1);
    assert_true(pthread_equal(call.thread, pthread_self()));
    assert_int_equal(call.outcome.status, STINT_CANCELLED);
    assert_int_equal(call.outcome.reason, STINT_REASON_TOKEN);
    gate_open(&gate);
    stint_future_release(future);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_callback_of_a_task_that_a_shutdown_ends_has_been_called_when_that_returns)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct call calls[2] = { 0 };
    stint_future *running = submit(pool, gate_hold_interruptibly, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *queued = submit(pool, give, NULL, NULL);
    assert_int_equal(stint_future_then(running, note, &calls[0]), 0);
    assert_int_equal(stint_future_then(queued, note, &calls[1]), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&calls[i].count), 1);
        assert_int_equal(calls[i].outcome.reason, STINT_REASON_SHUTDOWN);
    }
    stint_future_release(running);
    stint_future_release(queued);
}

static void release_it(stint_future *future, const stint_outcome *outcome, void *arg)
{
    note(future, outcome, arg);
    stint_future_release(future);
}

TEST(a_callback_may_release_its_future)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 1000; i++) {
        struct call call = { 0 };
        stint_future *future = submit(pool, give, NULL, NULL);
        assert_int_equal(stint_future_then(future, release_it, &call), 0);
        await_call(&call);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- In the midst of a task --------------------------------------------------------------------------------------- */

struct midst {
    stint_pool *pool;
    stint_future *other;
    struct call call;
    void *block;
    bool interrupted;
    bool metered;
    stint_outcome inner;
};

static int refuse(void *arg, void **value)
{
    (void)arg;
    *value = stint_malloc(1000);
    return 7;
}

/* Far more than the task around it may take, and things that would be a sample point there. */
static void allocate(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct midst *midst = arg;
    midst->block = stint_malloc(1000000);
    memset(midst->block, 1, 1000000);
    stint_checkpoint();
    stint_mask();
    stint_unmask();
    midst->interrupted = stint_is_interrupted();
    stint_run(refuse, NULL, NULL, &midst->inner);
    note(future, outcome, &midst->call);
}

/* Its own interrupt is due before the callback, and comes after it. */
static int cancel_another(void *arg, void **value)
{
    struct midst *midst = arg;
    (void)value;
    stint_free(stint_malloc(100));
    stint_future_cancel(midst->other);
    while (!stint_is_interrupted())
        stint_free(stint_malloc(100)); /* until the limit, which only this loop reaches */
    return 0;
}

TEST(a_callback_called_in_the_midst_of_a_task_is_no_part_of_it)
{
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (int i = 0; i < 2; i++) {
        struct midst midst = { .pool = make_pool(.workers = 1) };
        struct gate gate = { 0 };
        stint_future *holder = submit(midst.pool, gate_hold, &gate, NULL);
        gate_await(&gate, 1);
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = 100000;
        options.on_interrupt = modes[i];
        stint_future *task = submit(midst.pool, cancel_another, &midst, &options);
        midst.other = submit(midst.pool, give, NULL, NULL);
        assert_int_equal(stint_future_then(midst.other, allocate, &midst), 0);
        gate_open(&gate);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(task, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
        assert_true(outcome.usage.allocated <= 100000);
        assert_true(outcome.usage.allocated > 90000);
        assert_int_equal(atomic_load(&midst.call.count), 1);
        assert_false(midst.interrupted);
        assert_int_equal(midst.inner.reason, STINT_REASON_FAILED);
        assert_int_equal(midst.inner.error, 7);
        assert_int_equal(((char *)midst.block)[999999], 1); /* the rollback has not taken it */
        stint_free(midst.block);
        stint_future_release(midst.other);
        stint_future_release(task);
        stint_future_release(holder);
        assert_int_equal(stint_pool_destroy(midst.pool), 0);
    }
}

static int await_a_child_with_a_callback(void *arg, void **value)
{
    struct midst *midst = arg;
    stint_future *child;
    int error = stint_submit(midst->pool, give, midst, NULL, &child);
    if (error != 0)
        return error;
    error = stint_future_then(child, allocate, midst);
    if (error == 0)
        error = stint_future_wait(child, NULL);
    stint_future_release(child);
    *value = stint_malloc(10);
    memset(*value, 2, 10);
    return error;
}

TEST(a_callback_of_a_task_run_by_its_waiter_is_no_part_of_the_waiter)
{
    struct midst midst = { .pool = make_pool(.workers = 1) };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 100000;
    options.budget.memory = 100000;
    stint_future *task = submit(midst.pool, await_a_child_with_a_callback, &midst, &options);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(task, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.allocated < 1000);
    assert_int_equal(atomic_load(&midst.call.count), 1);
    assert_int_equal(((char *)outcome.value)[9], 2);
    stint_free(outcome.value);
    stint_free(midst.block);
    stint_future_release(task);
    assert_int_equal(stint_pool_destroy(midst.pool), 0);
}

/* --- What it may not ---------------------------------------------------------------------------------------------- */

struct blocker {
    stint_pool *pool;
    stint_future *never;
    atomic_bool done;
    int wait, wait_for, look, shutdown, destroy, resolved;
};

static void try_to_block(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct blocker *blocker = arg;
    (void)outcome;
    blocker->wait = stint_future_wait(blocker->never, NULL);
    blocker->wait_for = stint_future_wait_for(blocker->never, STINT_FOREVER, NULL);
    blocker->look = stint_future_wait_for(blocker->never, 0, NULL);
    blocker->shutdown = stint_pool_shutdown(blocker->pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER);
    blocker->destroy = stint_pool_destroy(blocker->pool);
    blocker->resolved = stint_future_wait(future, NULL);
    atomic_store(&blocker->done, true);
}

TEST(what_would_block_in_a_callback_is_refused)
{
    for (int inline_too = 0; inline_too < 2; inline_too++) {
        struct blocker blocker = { .pool = make_pool(.workers = 2) };
        struct gate gates[2] = { 0 };
        blocker.never = submit(blocker.pool, gate_hold, &gates[0], NULL);
        stint_future *future = submit(blocker.pool, gate_hold, &gates[1], NULL);
        if (inline_too) {
            gate_open(&gates[1]);
            assert_int_equal(stint_future_wait(future, NULL), 0);
        }
        assert_int_equal(stint_future_then(future, try_to_block, &blocker), 0);
        gate_open(&gates[1]);
        while (!atomic_load(&blocker.done))
            gate_nap();
        assert_int_equal(blocker.wait, EDEADLK);
        assert_int_equal(blocker.wait_for, EDEADLK);
        assert_int_equal(blocker.look, ETIMEDOUT);
        assert_int_equal(blocker.shutdown, EDEADLK);
        assert_int_equal(blocker.destroy, EDEADLK);
        assert_int_equal(blocker.resolved, 0);
        gate_open(&gates[0]);
        assert_int_equal(stint_future_wait(blocker.never, NULL), 0);
        stint_future_release(future);
        stint_future_release(blocker.never);
        assert_int_equal(stint_pool_destroy(blocker.pool), 0);
    }
}

/* --- Chains ------------------------------------------------------------------------------------------------------- */

#define LINKS 200000

struct chain {
    stint_pool *pool;
    stint_future **futures;
    atomic_uint calls;
    unsigned nested, deepest;
};

/* Each callback resolves the next future, whose callback is not called inside this one. */
static void cancel_the_next(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct chain *chain = arg;
    (void)outcome;
    chain->nested++;
    if (chain->nested > chain->deepest)
        chain->deepest = chain->nested;
    unsigned index = atomic_fetch_add(&chain->calls, 1);
    if (index + 1 < LINKS)
        stint_future_cancel(chain->futures[index + 1]);
    chain->nested--;
    stint_future_release(future);
}

TEST(a_long_chain_of_callbacks_takes_no_stack)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = LINKS };
    struct chain chain = { .futures = malloc(LINKS * sizeof *chain.futures) };
    assert_non_null(chain.futures);
    assert_int_equal(stint_pool_create(&options, &chain.pool), 0);
    struct gate gate = { 0 };
    stint_future *holder = submit(chain.pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    for (int i = 0; i < LINKS; i++) {
        chain.futures[i] = submit(chain.pool, give, NULL, NULL);
        assert_int_equal(stint_future_then(chain.futures[i], cancel_the_next, &chain), 0);
    }
    stint_future_cancel(chain.futures[0]);
    assert_int_equal(atomic_load(&chain.calls), LINKS);
    assert_int_equal(chain.deepest, 1);
    gate_open(&gate);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(chain.pool), 0);
    free(chain.futures);
}

struct next_step {
    stint_pool *pool;
    struct call call;
    int error;
};

static void submit_the_next(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct next_step *step = arg;
    (void)future;
    stint_future *next;
    step->error = stint_submit(step->pool, give, outcome->value, NULL, &next);
    if (step->error == 0) {
        step->error = stint_future_then(next, note, &step->call);
        stint_future_release(next);
    }
}

TEST(a_callback_may_submit)
{
    struct next_step step = { .pool = make_pool(.workers = 2) };
    stint_future *future = submit(step.pool, give, &step, NULL);
    assert_int_equal(stint_future_then(future, submit_the_next, &step), 0);
    await_call(&step.call);
    assert_ptr_equal(step.call.outcome.value, &step);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(step.pool), 0); /* the first callback may still be at work until then */
    assert_int_equal(step.error, 0);
}

/* --- Races -------------------------------------------------------------------------------------------------------- */

#define RACERS 3
#define ROUNDS 3000

struct race {
    stint_future *_Atomic future;
    atomic_uint round, left, calls;
    struct gate gate;
};

static void count_call(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct race *race = arg;
    (void)future;
    if (outcome->status == STINT_OK)
        atomic_fetch_add(&race->calls, 1);
}

static void *add_callbacks(void *arg)
{
    struct race *race = arg;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&race->round) < round)
            sched_yield();
        stint_future *future = atomic_load(&race->future);
        for (int i = 0; i < 3; i++)
            stint_future_then(future, count_call, race);
        stint_future_wait(future, NULL);
        atomic_fetch_sub(&race->left, 1);
    }
    return NULL;
}

/* A thread that comes while the future resolves is called once too, and none sleeps on. */
TEST(callbacks_added_while_the_future_resolves_are_called_once)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct race race = { .round = 0 };
    pthread_t threads[RACERS];
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_callbacks, &race), 0);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        atomic_store(&race.left, RACERS);
        stint_future *future = submit(pool, give, NULL, NULL);
        atomic_store(&race.future, future);
        atomic_store(&race.round, round);
        while (atomic_load(&race.left) > 0)
            sched_yield();
        stint_future_release(future);
    }
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&race.calls), RACERS * ROUNDS * 3);
}

TEST_MAIN()
