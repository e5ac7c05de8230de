/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for a time, and series of them: when they start, how they are ended, what a shutdown does. Times are
 * asserted in one direction only: nothing starts early. */
#include "pools.h"

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

static int note_time(void *arg, void **value)
{
    *value = arg;
    *(uint64_t *)arg = now();
    return 0;
}

TEST(a_delayed_task_starts_no_earlier_than_it_should)
{
    stint_pool *pool = make_pool(.workers = 2);
    uint64_t started[20] = { 0 };
    uint64_t wanted[20];
    stint_future *futures[20];
    for (int i = 0; i < 20; i++) {
        wanted[i] = i == 0 ? 1 : now() + (uint64_t)(20 - i) * 3 * MS;
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.wall_ns = UINT64_C(100000) * MS;
        options.priority = i % 3 == 0 ? STINT_PRIORITY_LOW : STINT_PRIORITY_NORMAL;
        assert_int_equal(stint_submit_at(pool, note_time, &started[i], &options, wanted[i], &futures[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_ok(outcome);
        assert_true(started[i] >= wanted[i]);
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future;
    assert_int_equal(stint_submit_at(NULL, note_time, NULL, NULL, 1, &future), EINVAL);
    assert_int_equal(stint_submit_at(pool, NULL, NULL, NULL, 1, &future), EINVAL);
    assert_int_equal(stint_submit_at(pool, note_time, NULL, NULL, 0, &future), EINVAL);
    assert_int_equal(stint_submit_at(pool, note_time, NULL, NULL, 1, NULL), EINVAL);
    assert_int_equal(stint_submit_every(NULL, note_time, NULL, NULL, 1, 1, &future), EINVAL);
    assert_int_equal(stint_submit_every(pool, NULL, NULL, NULL, 1, 1, &future), EINVAL);
    assert_int_equal(stint_submit_every(pool, note_time, NULL, NULL, 0, 1, &future), EINVAL);
    assert_int_equal(stint_submit_every(pool, note_time, NULL, NULL, 1, 0, &future), EINVAL);
    assert_int_equal(stint_submit_every(pool, note_time, NULL, NULL, 1, 1, NULL), EINVAL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_submit_at(pool, note_time, NULL, NULL, 1, &future), ESHUTDOWN);
    assert_int_equal(stint_submit_every(pool, note_time, NULL, NULL, 1, 1, &future), ESHUTDOWN);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static stint_future *submit_in_an_hour(stint_pool *pool, stint_fn *fn, void *arg)
{
    stint_future *future;
    assert_int_equal(stint_submit_at(pool, fn, arg, NULL, now() + 3600 * 1000 * MS, &future), 0);
    return future;
}

TEST(a_delayed_task_can_be_cancelled)
{
    stint_pool *pool = make_pool(.workers = 1);
    uint64_t started = 0;
    stint_future *future = submit_in_an_hour(pool, note_time, &started);
    assert_int_equal(stint_future_wait_for(future, 0, NULL), ETIMEDOUT);
    stint_future_cancel(future);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait_for(future, 0, &outcome), 0);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    stint_future_cancel(future);
    stint_future_release(future);
    assert_int_equal(started, 0);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    assert_int_equal(statistics.outcomes[STINT_REASON_TOKEN], 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_shutdown_waits_for_no_time_to_come)
{
    for (int how = STINT_SHUTDOWN_DRAIN; how <= STINT_SHUTDOWN_DRAIN_THEN_CANCEL; how++) {
        stint_pool *pool = make_pool(.workers = 1);
        uint64_t started = 0;
        stint_future *delayed = submit_in_an_hour(pool, note_time, &started);
        stint_future *series;
        assert_int_equal(stint_submit_every(pool, note_time, &started, NULL, now() + 3600 * 1000 * MS, 1, &series), 0);
        assert_int_equal(stint_pool_shutdown(pool, (stint_shutdown)how, STINT_FOREVER), 0);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait_for(delayed, 0, &outcome), 0);
        assert_cancelled(outcome, STINT_REASON_SHUTDOWN);
        assert_int_equal(stint_future_wait_for(series, 0, &outcome), 0);
        assert_cancelled(outcome, STINT_REASON_SHUTDOWN);
        assert_int_equal(started, 0);
        stint_future_release(delayed);
        stint_future_release(series);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

static int nap(void *arg, void **value)
{
    (void)arg;
    (void)value;
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    return 0;
}

/* Each turn is due when the one before it ends: at any moment one runs, or is about to. */
TEST(a_drain_ends_while_turns_run)
{
    for (int how = STINT_SHUTDOWN_DRAIN; how <= STINT_SHUTDOWN_DRAIN_THEN_CANCEL; how++) {
        stint_pool *pool = make_pool(.workers = 2);
        stint_future *series[8];
        for (int i = 0; i < 8; i++)
            assert_int_equal(stint_submit_every(pool, nap, NULL, NULL, 1, 1, &series[i]), 0);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        assert_int_equal(stint_pool_shutdown(pool, (stint_shutdown)how, 60000 * MS), 0);
        for (int i = 0; i < 8; i++) {
            stint_outcome outcome;
            assert_int_equal(stint_future_wait_for(series[i], 0, &outcome), 0);
            assert_cancelled(outcome, STINT_REASON_SHUTDOWN);
            stint_future_release(series[i]);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* The queue is full, and others try again and again to get in: what is due comes first. */
TEST(what_is_due_gets_the_next_place)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 2);
    struct gate gate = { 0 };
    uint64_t started[40] = { 0 };
    stint_future *holder;
    stint_future *futures[40];
    stint_future *filling[4];
    uint64_t filled[4];
    unsigned count = 0;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holder), 0);
    gate_await(&gate, 1);
    while (count < 4 && stint_submit(pool, note_time, &filled[count], NULL, &filling[count]) == 0)
        count++;
    assert_true(count < 4);
    uint64_t due = now() + MS;
    for (int i = 0; i < 40; i++)
        assert_int_equal(stint_submit_at(pool, note_time, &started[i], NULL, due, &futures[i]), 0);
    stint_future *late;
    while (stint_submit(pool, note_time, &filled[3], NULL, &late) != EAGAIN || now() < due + 5 * MS)
        gate_nap();
    gate_open(&gate);
    for (int i = 0; i < 40; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_ok(outcome);
        assert_true(started[i] >= due);
        stint_future_release(futures[i]);
    }
    for (unsigned i = 0; i < count; i++)
        stint_future_release(filling[i]);
    stint_future_release(holder);
    assert_int_equal(stint_submit(pool, note_time, &filled[0], NULL, &late), 0);
    stint_future_release(late);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct waiter {
    stint_pool *pool;
    uint64_t started;
};

static int wait_for_a_delayed_one(void *arg, void **value)
{
    struct waiter *waiter = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit_at(waiter->pool, note_time, &waiter->started, NULL, now() + 5 * MS, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

TEST(a_task_may_wait_for_a_delayed_one_that_only_its_worker_could_run)
{
    struct waiter waiter = { .started = 0 };
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = 1,
                                         .substitutes = STINT_NO_SUBSTITUTES };
    assert_int_equal(stint_pool_create(&options, &waiter.pool), 0);
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(waiter.pool, wait_for_a_delayed_one, &waiter, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    assert_true(waiter.started != 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(waiter.pool), 0);
}

/* --- Series ------------------------------------------------------------------------------------------------------- */

struct beat {
    atomic_uint count;
    atomic_uint inside;
    atomic_bool overlapped;
    uint64_t start, period;
    uint64_t times[8];
    int code;
    unsigned until;
    void *value;
    uint64_t pause;
};

static int beat(void *arg, void **value)
{
    struct beat *beat = arg;
    if (atomic_fetch_add(&beat->inside, 1) > 0)
        atomic_store(&beat->overlapped, true);
    unsigned count = atomic_fetch_add(&beat->count, 1);
    if (count < 8)
        beat->times[count] = now();
    stint_free(keep(stint_malloc(1000)));
    nanosleep(&(struct timespec){ .tv_nsec = (long)beat->pause }, NULL);
    atomic_fetch_sub(&beat->inside, 1);
    if (count + 1 < beat->until)
        return 0;
    *value = beat->value;
    return beat->code != 0 ? stint_fail(beat->code, "it is over", 11) : 0;
}

static stint_outcome run_series(stint_pool *pool, struct beat *series)
{
    stint_future *future;
    stint_outcome outcome;
    series->start = now() + MS;
    assert_int_equal(stint_submit_every(pool, beat, series, NULL, series->start, series->period, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_false(atomic_load(&series->overlapped));
    assert_int_equal(atomic_load(&series->count), series->until);
    for (unsigned i = 0; i < series->until && i < 8; i++)
        assert_true(series->times[i] >= series->start + i * series->period);
    assert_true(outcome.usage.allocated >= series->until * 1000);
    if (series->code != 0) {
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, series->code);
        assert_string_equal(outcome.payload, "it is over");
    } else {
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, series->value);
    }
    stint_future_release(future);
    return outcome;
}

TEST(a_series_goes_on_until_a_turn_fails_or_leaves_a_value)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct beat fails = { .period = 2 * MS, .code = 5, .until = 6 };
    run_series(pool, &fails);
    struct beat gives = { .period = 2 * MS, .value = &gives, .until = 4 };
    run_series(pool, &gives);
    /* Turns that last longer than the period leave times out. */
    struct beat slow = { .period = 10 * MS, .code = 5, .until = 5, .pause = 15 * MS };
    run_series(pool, &slow);
    for (int i = 1; i < 5; i++) {
        uint64_t ended = slow.times[i - 1] + slow.pause - slow.start; /* or later */
        assert_true(slow.times[i] - slow.start >= (ended + slow.period - 1) / slow.period * slow.period);
    }
    /* Shorter than the clock's ticks. */
    struct beat quick = { .period = 1, .code = 5, .until = 6 };
    run_series(pool, &quick);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int finish_and_hold(void *arg, void **value)
{
    assert_true(stint_finish());
    return gate_hold(arg, value);
}

TEST(the_payload_of_the_last_turn_stays_when_that_has_gone)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct beat series = { .period = MS, .code = 5, .until = 2 };
    stint_future *future;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    options.account = make_account(NULL, .running = 1);
    assert_int_equal(stint_submit_every(pool, beat, &series, &options, 1, series.period, &future), 0);
    stint_token_release(options.token); /* the series has its own references, and gives them back */
    stint_account_release(options.account);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_free(keep(stint_malloc(11)));
    assert_string_equal(outcome.payload, "it is over");
    stint_future_release(future);
}

TEST(a_series_that_is_cancelled_in_a_turn_that_ends_ok_all_the_same_has_no_further_one)
{
    struct gate gate = { 0 };
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit_every(pool, finish_and_hold, &gate, NULL, 1, 1, &future), 0);
    gate_await(&gate, 1);
    stint_future_cancel(future);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    assert_int_equal(atomic_load(&gate.entered), 1);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_series_can_be_cancelled_at_any_time)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 100; i++) {
        struct beat series = { .period = MS / 2, .until = 1000000 };
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit_every(pool, beat, &series, NULL, 1, series.period, &future), 0);
        while (atomic_load(&series.count) < (unsigned)i % 5)
            sched_yield();
        for (int turns = i * 7 % 50; turns > 0; turns--)
            sched_yield();
        stint_future_cancel(future);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        unsigned count = atomic_load(&series.count);
        gate_nap();
        assert_int_equal(atomic_load(&series.count), count);
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_series_leaves_one_completion)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_completions *queue;
    struct beat series = { .period = MS, .code = 5, .until = 3 };
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_completion completion;
    size_t count;
    assert_int_equal(stint_completions_create(&queue), 0);
    options.completions = queue;
    options.data = &series;
    assert_int_equal(stint_submit_every(pool, beat, &series, &options, 1, series.period, &future), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_completions_read(queue, &completion, 1, &count), 0);
    assert_int_equal(count, 1);
    assert_ptr_equal(completion.data, &series);
    assert_int_equal(completion.outcome.error, 5);
    assert_int_equal(stint_completions_read(queue, &completion, 1, &count), 0);
    assert_int_equal(count, 0);
    stint_completions_destroy(queue);
}

/* Delayed tasks and series, cancelled and due while the pool goes. */
TEST(a_pool_may_go_while_tasks_become_due)
{
    for (int round = 0; round < 100; round++) {
        stint_pool *pool = make_pool(.workers = 2, .queue_capacity = 16);
        uint64_t started[20] = { 0 };
        stint_future *futures[20];
        for (int i = 0; i < 20; i++) {
            stint_options options = STINT_OPTIONS_INIT;
            options.priority = i % 2 == 0 ? STINT_PRIORITY_NORMAL : STINT_PRIORITY_HIGH;
            assert_int_equal(stint_submit_at(pool, note_time, &started[i], &options,
                                             now() + (uint64_t)(round * i % 7) * MS / 2, &futures[i]),
                             0);
        }
        struct beat series = { .period = MS, .until = 1000000 };
        stint_future *every;
        assert_int_equal(stint_submit_every(pool, beat, &series, NULL, 1, MS, &every), 0);
        for (int i = 0; i < round % 3; i++)
            gate_nap();
        stint_future_cancel(futures[round % 20]);
        assert_int_equal(stint_pool_destroy(pool), 0);
        for (int i = 0; i < 20; i++) {
            stint_outcome outcome;
            assert_int_equal(stint_future_wait_for(futures[i], 0, &outcome), 0);
            if (outcome.status == STINT_OK)
                assert_true(started[i] != 0);
            else /* it may have been running, or at its end */
                assert_true(outcome.reason == STINT_REASON_SHUTDOWN ||
                            (outcome.reason == STINT_REASON_TOKEN && i == round % 20));
            stint_future_release(futures[i]);
        }
        assert_int_equal(stint_future_wait_for(every, 0, NULL), 0);
        stint_future_release(every);
    }
}

/* One task of the account runs and one waits, so no other may wait. Tasks behind these in line do not wait for that. */
TEST(what_is_due_waits_until_its_account_may_have_it_waiting)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    uint64_t started[4] = { 0 };
    stint_future *futures[5];
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_account_create(
                         NULL,
                         &(stint_account_limits){ .size = sizeof(stint_account_limits), .running = 1, .waiting = 1 },
                         &options.account),
                     0);
    assert_int_equal(stint_submit(pool, gate_hold, &gate, &options, &futures[0]), 0);
    gate_await(&gate, 1);
    assert_int_equal(stint_submit(pool, note_time, &started[0], &options, &futures[1]), 0);
    assert_int_equal(stint_submit(pool, note_time, &started[1], &options, &futures[2]), EDQUOT);
    uint64_t due = now() + MS;
    assert_int_equal(stint_submit_at(pool, note_time, &started[1], &options, due, &futures[2]), 0);
    assert_int_equal(stint_submit_at(pool, note_time, &started[2], &options, due + 5 * MS, &futures[3]), 0);
    assert_int_equal(stint_submit_at(pool, note_time, &started[3], NULL, due + 10 * MS, &futures[4]), 0);
    assert_int_equal(stint_future_wait(futures[4], &outcome), 0);
    assert_ok(outcome);
    assert_false(stint_future_is_ready(futures[2]));
    assert_false(stint_future_is_ready(futures[3]));
    gate_open(&gate);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_ok(outcome);
        stint_future_release(futures[i]);
    }
    assert_true(started[1] <= started[2]);
    stint_account_release(options.account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Of two accounts, far more tasks than may wait: each of them starts, except those that are cancelled in line; and
 * the end of the pool leaves none behind. */
TEST(those_whose_account_is_full_start_in_their_turn)
{
    for (int cut = 0; cut < 2; cut++) {
        stint_pool *pool = make_pool(.workers = 2);
        static uint64_t started[200];
        stint_future *futures[200];
        stint_options options[2] = { STINT_OPTIONS_INIT, STINT_OPTIONS_INIT };
        const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1, .waiting = 2 };
        memset(started, 0, sizeof started);
        for (int i = 0; i < 2; i++)
            assert_int_equal(stint_account_create(NULL, &limits, &options[i].account), 0);
        for (int i = 0; i < 200; i++)
            assert_int_equal(
                stint_submit_at(pool, note_time, &started[i], &options[i % 2], (uint64_t)i + 1, &futures[i]), 0);
        for (int i = 0; i < 200; i += 7)
            stint_future_cancel(futures[i]);
        if (cut)
            assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
        for (int i = 0; i < 200; i++) {
            stint_outcome outcome;
            assert_int_equal(stint_future_wait_for(futures[i], 60000 * MS, &outcome), 0);
            if (!cut && i % 7 != 0)
                assert_ok(outcome);
            assert_true(outcome.status != STINT_OK || started[i] != 0);
            stint_future_release(futures[i]);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
        for (int i = 0; i < 2; i++)
            stint_account_release(options[i].account);
    }
}

TEST_MAIN()
