/* SPDX-License-Identifier: MIT
 *
 * A task whose deadline passes while it waits resolves then, although every worker is busy; and whatever else happens
 * to tasks with deadlines, each resolves once. */
#include "pools.h"

static void assert_expired(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_EXPIRED);
    assert_int_equal(outcome.error, ETIMEDOUT);
    stint_future_release(future);
}

TEST(queued_tasks_resolve_at_their_deadlines_while_every_worker_is_busy)
{
    enum { TASKS = 60 };
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_future *holder, *futures[TASKS], *without;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, &options, &holder), 0);
    gate_await(&gate, 1);
    atomic_uint ran = 0;
    for (unsigned i = 0; i < TASKS; i++) {
        options.account = i % 2 == 0 ? account : NULL;
        options.priority = (stint_priority)(i % 3);
        options.budget.wall_ns = 1 + i % 5 * 10 * MS;
        assert_int_equal(stint_submit(pool, count_run, &ran, &options, &futures[i]), 0);
    }
    assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &without), 0);
    for (unsigned i = 0; i < TASKS; i++)
        assert_expired(futures[i]);
    assert_int_equal(atomic_load(&ran), 0);
    assert_false(stint_future_is_ready(without));
    gate_open(&gate);
    assert_int_equal(stint_future_wait(holder, NULL), 0);
    stint_future_release(holder);
    assert_int_equal(stint_future_wait(without, NULL), 0);
    stint_future_release(without);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    assert_int_equal(statistics.outcomes[STINT_REASON_EXPIRED], TASKS);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

/* --- What they leave ---------------------------------------------------------------------------------------------- */

enum { AT_ONCE = 1000, EXPIRED = 100000 };

static void expire_some(stint_pool *pool, stint_account *account)
{
    static stint_future *futures[AT_ONCE];
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    options.budget.wall_ns = MS;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        options.account = i % 2 == 0 ? account : NULL;
        futures[i] = submit(pool, count_run, &ran, &options);
    }
    for (unsigned i = 0; i < AT_ONCE; i++)
        assert_expired(futures[i]);
    assert_int_equal(atomic_load(&ran), 0);
    gate_open(&gate);
    assert_ok(take_in_time(holder));
}

/* Ten bytes each would be a MiB. */
TEST(tasks_that_have_expired_leave_no_memory_behind)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 2 * AT_ONCE);
    stint_account *account = make_account(NULL, .running = 1);
    for (unsigned expired = 0; expired < 10 * AT_ONCE; expired += AT_ONCE)
        expire_some(pool, account);
    size_t before = resident();
    for (unsigned expired = 0; expired < EXPIRED; expired += AT_ONCE)
        expire_some(pool, account);
    assert_in_range(resident(), 0, before + MIB / 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

/* --- Limits from the start of the function ------------------------------------------------------------------------ */

/* Behind a task that holds the only worker for longer than run_ns. */
static stint_outcome run_after(uint64_t ns, const stint_options *options, stint_fn *fn, void *arg)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *holder, *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holder), 0);
    gate_await(&gate, 1);
    assert_int_equal(stint_submit(pool, fn, arg, options, &future), 0);
    nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(stint_future_wait(holder, NULL), 0);
    stint_future_release(future);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return outcome;
}

TEST(a_run_limit_counts_from_the_start_however_long_the_task_has_waited)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20 * MS;
    stint_outcome outcome = run_after(60 * MS, &options, check_for_ever, NULL);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(outcome.error, ETIMEDOUT);
    assert_true(outcome.usage.queued_ns >= 60 * MS);
    assert_true(outcome.usage.wall_ns >= 20 * MS);

    assert_int_equal(stint_run(check_for_ever, NULL, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_true(outcome.usage.wall_ns >= 20 * MS);
}

TEST(the_earlier_of_the_two_deadlines_holds)
{
    atomic_uint ran = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 3600000 * MS;
    options.budget.wall_ns = 10 * MS;
    stint_outcome outcome = run_after(60 * MS, &options, count_run, &ran);
    assert_int_equal(outcome.reason, STINT_REASON_EXPIRED);
    assert_int_equal(atomic_load(&ran), 0);
    assert_int_equal(outcome.usage.wall_ns, 0);

    assert_int_equal(stint_run(check_for_ever, NULL, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);

    options.budget.run_ns = 10 * MS;
    options.budget.wall_ns = UINT64_MAX;
    outcome = run_after(30 * MS, &options, check_for_ever, NULL);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_true(outcome.usage.wall_ns >= 10 * MS && outcome.usage.queued_ns >= 30 * MS);
}

/* --- Callbacks of what expired ------------------------------------------------------------------------------------ */

static struct {
    atomic_uint begun;
    atomic_uint ended;
    atomic_bool may_end;
    atomic_bool gave_up; /* nobody let it end */
} slow;

/* Waits until the task that it must not hold up has run. */
static void be_slow(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    (void)arg;
    atomic_fetch_add(&slow.begun, 1);
    for (unsigned i = 0; i < 200000 && !atomic_load(&slow.may_end); i++)
        gate_nap();
    if (!atomic_load(&slow.may_end))
        atomic_store(&slow.gave_up, true);
    atomic_fetch_add(&slow.ended, 1);
}

TEST(slow_callbacks_of_expired_tasks_hold_up_no_other_deadline)
{
    enum { SLOW = 20 };
    stint_pool *pool = make_pool(.workers = 1);
    stint_pool *other = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *holders[2], *slow_one, *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holders[0]), 0);
    assert_int_equal(stint_submit(other, gate_hold, &gate, NULL, &holders[1]), 0);
    gate_await(&gate, 2);
    atomic_uint ran = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 5 * MS;
    for (unsigned i = 0; i < SLOW; i++) {
        assert_int_equal(stint_submit(pool, count_run, &ran, &options, &slow_one), 0);
        assert_int_equal(stint_future_then(slow_one, be_slow, NULL), 0);
        assert_expired(slow_one); /* of its own pool, also behind those whose callbacks wait */
    }
    while (atomic_load(&slow.begun) == 0)
        gate_nap();
    assert_int_equal(stint_submit(other, count_run, &ran, &options, &future), 0);
    assert_expired(future);
    gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_future_wait(holders[i], NULL), 0);
        stint_future_release(holders[i]);
    }
    /* And of a task that runs: only the watch ends it. */
    options.preemptible = true;
    assert_int_equal(stint_submit(other, check_for_ever, NULL, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_ERROR);
    stint_future_release(future);
    assert_true(atomic_load(&slow.ended) < SLOW);
    atomic_store(&slow.may_end, true);
    assert_int_equal(stint_pool_destroy(other), 0);
    assert_int_equal(stint_pool_destroy(pool), 0); /* after the last of them */
    assert_int_equal(atomic_load(&slow.ended), SLOW);
    assert_false(atomic_load(&slow.gave_up));
    assert_int_equal(atomic_load(&ran), 0);
}

TEST(the_shortest_deadline_expires_and_the_longest_never_comes)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *holders[2], *future;
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holders[i]), 0);
    gate_await(&gate, 2);
    atomic_uint ran = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 1;
    assert_int_equal(stint_submit(pool, count_run, &ran, &options, &future), 0);
    assert_expired(future);
    options.budget.wall_ns = UINT64_MAX; /* never */
    assert_int_equal(stint_submit(pool, count_run, &ran, &options, &future), 0);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_future_wait(holders[i], NULL), 0);
        stint_future_release(holders[i]);
    }
    assert_int_equal(atomic_load(&ran), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_pool_can_go_while_deadlines_are_outstanding)
{
    for (int round = 0; round < 50; round++) {
        stint_pool *pool = make_pool(.workers = 2);
        atomic_uint ran = 0;
        stint_future *futures[100];
        stint_options options = STINT_OPTIONS_INIT;
        for (unsigned i = 0; i < 100; i++) {
            options.priority = (stint_priority)(i % 3);
            options.budget.wall_ns = 1 + (uint64_t)rand() % (3 * MS);
            assert_int_equal(stint_submit(pool, count_run, &ran, &options, &futures[i]), 0);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
        for (unsigned i = 0; i < 100; i++) {
            assert_true(stint_future_is_ready(futures[i]));
            stint_future_release(futures[i]);
        }
    }
}

/* --- All at once -------------------------------------------------------------------------------------------------- */

#define PRODUCERS 3
#define TASKS_EACH 10000
#define WINDOW 128

struct producer {
    stint_pool *pool;
    stint_account *account;
    pthread_t thread;
    unsigned seed;
    atomic_uint ran;
    unsigned ok, late, cancelled, other;
};

static int work(void *arg, void **value)
{
    for (volatile int i = 0; i < 3000; i++)
        ;
    return count_run(arg, value);
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *window[WINDOW];
    size_t oldest = 0;
    size_t newest = 0;
    while (oldest < TASKS_EACH) {
        unsigned dice = (unsigned)rand_r(&producer->seed);
        stint_options options = STINT_OPTIONS_INIT;
        options.account = dice % 4 == 0 ? producer->account : NULL;
        options.priority = (stint_priority)(dice / 4 % 3);
        options.budget.wall_ns = 1 + dice / 16 % (2 * MS);
        if (newest < TASKS_EACH && newest - oldest < WINDOW &&
            stint_submit(producer->pool, work, &producer->ran, &options, &window[newest % WINDOW]) == 0) {
            newest++;
            if (dice / 16 % 5 == 0)
                stint_future_cancel(window[(oldest + dice % (newest - oldest)) % WINDOW]);
        } else if (oldest < newest) {
            stint_outcome outcome;
            stint_future_wait(window[oldest % WINDOW], &outcome);
            stint_future_release(window[oldest++ % WINDOW]);
            producer->ok += outcome.reason == STINT_REASON_NONE;
            producer->late += outcome.reason == STINT_REASON_EXPIRED || outcome.reason == STINT_REASON_DEADLINE;
            producer->cancelled += outcome.reason == STINT_REASON_TOKEN;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

TEST(workers_cancellers_and_the_monitor_end_each_task_once)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    static struct producer producers[PRODUCERS];
    unsigned late = 0;
    unsigned ended = 0;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pool = pool, .account = account, .seed = i + 1 };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        assert_int_equal(producers[i].ok + producers[i].late + producers[i].cancelled, TASKS_EACH);
        assert_true(atomic_load(&producers[i].ran) >= producers[i].ok);
        late += producers[i].late;
        ended += TASKS_EACH;
    }
    assert_true(late > 0);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    assert_int_equal(statistics.outcomes[STINT_REASON_NONE] + statistics.outcomes[STINT_REASON_EXPIRED] +
                         statistics.outcomes[STINT_REASON_DEADLINE] + statistics.outcomes[STINT_REASON_TOKEN],
                     ended);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

TEST_MAIN()
