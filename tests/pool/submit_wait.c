/* SPDX-License-Identifier: MIT
 *
 * Waiting for a place in a full queue. */
#include "pools.h"

#define CAPACITY 8

/* A pool of one worker, which is held, and whose queue is full. */
struct full {
    stint_pool *pool;
    struct gate gate;
    stint_future *holder;
    stint_future *queued[CAPACITY];
};

static void fill(struct full *full)
{
    memset(full, 0, sizeof *full);
    full->pool = make_pool(.workers = 1, .queue_capacity = CAPACITY);
    assert_int_equal(stint_submit(full->pool, gate_hold, &full->gate, NULL, &full->holder), 0);
    gate_await(&full->gate, 1);
    for (int i = 0; i < CAPACITY; i++)
        assert_int_equal(stint_submit_wait(full->pool, give, NULL, NULL, 0, &full->queued[i]), 0);
}

static void empty(struct full *full)
{
    gate_open(&full->gate);
    take(full->holder);
    for (int i = 0; i < CAPACITY; i++)
        take(full->queued[i]);
    assert_int_equal(stint_pool_destroy(full->pool), 0);
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = CAPACITY);
    stint_future *future = NULL;
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_submit_wait(NULL, give, NULL, NULL, 0, &future), EINVAL);
    assert_int_equal(stint_submit_wait(pool, NULL, NULL, NULL, 0, &future), EINVAL);
    assert_int_equal(stint_submit_wait(pool, give, NULL, NULL, 0, NULL), EINVAL);
    memset(&options.priority, 0x7f, sizeof options.priority);
    assert_int_equal(stint_submit_wait(pool, give, NULL, &options, 0, &future), EINVAL);
    assert_int_equal(stint_submit(pool, give, NULL, &options, &future), EINVAL);
    assert_null(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(it_times_out_and_leaves_nothing_behind)
{
    struct full full;
    fill(&full);
    stint_future *future = (stint_future *)&full;
    assert_int_equal(stint_submit_wait(full.pool, give, NULL, NULL, 0, &future), ETIMEDOUT);
    assert_null(future);
    assert_int_equal(stint_submit_wait(full.pool, give, NULL, NULL, 1000000, &future), ETIMEDOUT);
    assert_null(future);
    assert_int_equal(stint_submit(full.pool, give, NULL, NULL, &future), EAGAIN);
    empty(&full);
}

struct waiter {
    stint_pool *pool;
    stint_account *account;
    stint_future *future;
    int error;
    atomic_bool ready;
    pthread_t thread;
};

static void *wait_for_place(void *arg)
{
    struct waiter *waiter = arg;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = waiter->account;
    waiter->error = stint_submit_wait(waiter->pool, give, waiter, &options, STINT_FOREVER, &waiter->future);
    atomic_store(&waiter->ready, true);
    return NULL;
}

static void start_waiting(struct waiter *waiter, stint_pool *pool, stint_account *account)
{
    *waiter = (struct waiter){ .pool = pool, .account = account };
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_place, waiter), 0);
}

TEST(a_place_that_gets_free_is_given_to_one_who_waits)
{
    struct full full;
    struct waiter waiters[4];
    fill(&full);
    for (int i = 0; i < 4; i++)
        start_waiting(&waiters[i], full.pool, NULL);
    for (int i = 0; i < 100; i++)
        gate_nap();
    for (int i = 0; i < 4; i++)
        assert_false(atomic_load(&waiters[i].ready));
    gate_open(&full.gate);
    for (int i = 0; i < 4; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].error, 0);
        assert_ptr_equal(take(waiters[i].future).value, &waiters[i]);
    }
    empty(&full);
}

struct own_waiter {
    struct gate begin;
    stint_future *awaited;
};

static int await_when_open(void *arg, void **value)
{
    struct own_waiter *own = arg;
    gate_hold(&own->begin, value);
    return stint_future_wait(own->awaited, NULL);
}

/* The only worker takes the task out of its turn, and stays in it. */
TEST(a_place_that_gets_free_as_a_task_runs_what_it_waits_for_is_given_to_one_who_waits)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = CAPACITY);
    stint_account *account = make_account(NULL, .weight = 100);
    stint_options options = { .size = sizeof options, .account = account };
    struct own_waiter own = { .awaited = NULL };
    struct gate gate = { 0 };
    struct waiter waiter;
    stint_future *queued[CAPACITY + 1];
    unsigned count = 0;
    stint_future *holder = submit(pool, await_when_open, &own, NULL);
    gate_await(&own.begin, 1);
    own.awaited = submit_for(pool, gate_hold, &gate, account);
    while (stint_submit(pool, give, NULL, &options, &queued[count]) == 0)
        count++;
    start_waiting(&waiter, pool, account);
    for (int i = 0; i < 100; i++)
        gate_nap();
    assert_false(atomic_load(&waiter.ready));
    gate_open(&own.begin);
    gate_await(&gate, 1);
    for (int i = 0; i < 60000 && !atomic_load(&waiter.ready); i++)
        nap_ms(1);
    assert_true(atomic_load(&waiter.ready));
    gate_open(&gate);
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.error, 0);
    assert_ptr_equal(take(waiter.future).value, &waiter);
    assert_ok(take(holder));
    assert_ok(take(own.awaited));
    for (unsigned i = 0; i < count; i++)
        assert_ok(take(queued[i]));
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

TEST(shutting_down_ends_the_wait)
{
    for (int round = 0; round < 2; round++) {
        struct full full;
        struct waiter waiter;
        fill(&full);
        start_waiting(&waiter, full.pool, NULL);
        for (int i = 0; i < 20; i++)
            gate_nap();
        stint_shutdown how = round == 0 ? STINT_SHUTDOWN_DRAIN : STINT_SHUTDOWN_CANCEL;
        assert_int_equal(stint_pool_shutdown(full.pool, how, 0), ETIMEDOUT);
        pthread_join(waiter.thread, NULL);
        assert_int_equal(waiter.error, ESHUTDOWN);
        assert_null(waiter.future);
        stint_future *future;
        assert_int_equal(stint_submit_wait(full.pool, give, NULL, NULL, STINT_FOREVER, &future), ESHUTDOWN);
        empty(&full);
    }
}

static int submit_waiting(void *arg, void **value)
{
    struct full *full = arg;
    (void)value;
    stint_future *futures[300 + CAPACITY];
    unsigned count = 0;
    int error;
    /* Its own deque, then the queue. */
    while ((error = stint_submit_wait(full->pool, give, NULL, NULL, STINT_FOREVER, &futures[count])) == 0)
        count++;
    while (count > 0)
        stint_future_release(futures[--count]);
    return error;
}

TEST(a_task_does_not_wait_for_a_place_in_its_own_pool)
{
    struct full full = { .pool = make_pool(.workers = 1, .queue_capacity = CAPACITY) };
    stint_future *future;
    assert_int_equal(stint_submit(full.pool, submit_waiting, &full, NULL, &future), 0);
    assert_int_equal(take(future).error, EDEADLK);
    assert_int_equal(stint_pool_destroy(full.pool), 0);
}

TEST(a_cancelled_task_of_an_account_gives_its_place_to_one_who_waits)
{
    struct full full;
    stint_account *account;
    stint_future *futures[CAPACITY + 1];
    struct waiter waiter;
    fill(&full);
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    unsigned count = 0;
    while (stint_submit(full.pool, give, NULL, &options, &futures[count]) == 0)
        count++;
    start_waiting(&waiter, full.pool, account);
    for (int i = 0; i < 20; i++)
        gate_nap();
    assert_false(atomic_load(&waiter.ready));
    stint_future_cancel(futures[0]);
    pthread_join(waiter.thread, NULL); /* although the worker is still held */
    assert_int_equal(waiter.error, 0);
    assert_int_equal(take(futures[0]).status, STINT_CANCELLED);
    gate_open(&full.gate);
    for (unsigned i = 1; i < count; i++)
        assert_int_equal(take(futures[i]).status, STINT_OK);
    assert_int_equal(take(waiter.future).status, STINT_OK);
    empty(&full);
    stint_account_release(account);
}

/* In a room that is empty, as the accounts have their only place in another pool's. */
TEST(whose_account_has_a_place_again_is_found_behind_any_number_of_lines)
{
    enum { LINES = 20 };
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = CAPACITY);
    stint_pool *other;
    const stint_pool_options other_options = { .size = sizeof(stint_pool_options), .workers = 1 };
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .waiting = 1 };
    stint_account *accounts[LINES];
    stint_future *holder, *queued[LINES];
    struct waiter waiters[LINES];
    struct gate gate = { 0 };
    assert_int_equal(stint_pool_create(&other_options, &other), 0);
    assert_int_equal(stint_submit(other, gate_hold, &gate, NULL, &holder), 0);
    gate_await(&gate, 1);
    for (unsigned i = 0; i < LINES; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        assert_int_equal(stint_account_create(NULL, &limits, &accounts[i]), 0);
        options.account = accounts[i];
        assert_int_equal(stint_submit(other, give, NULL, &options, &queued[i]), 0);
        start_waiting(&waiters[i], pool, accounts[i]);
    }
    for (int i = 0; i < 100; i++)
        gate_nap();
    for (unsigned i = LINES; i-- > 0;) {
        assert_false(atomic_load(&waiters[i].ready));
        stint_future_cancel(queued[i]);
        for (int naps = 0; naps < 100000 && !atomic_load(&waiters[i].ready); naps++)
            gate_nap();
        assert_true(atomic_load(&waiters[i].ready));
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].error, 0);
        assert_int_equal(take(waiters[i].future).status, STINT_OK);
        stint_future_release(queued[i]);
        stint_account_release(accounts[i]);
    }
    gate_open(&gate);
    assert_int_equal(take(holder).status, STINT_OK);
    assert_int_equal(stint_pool_destroy(other), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Many at once ------------------------------------------------------------------------------------------------- */

#define PRODUCERS 4
#define TASKS_EACH 5000

struct producer {
    stint_pool *pool;
    stint_account *account;
    unsigned seed;
    unsigned accepted, ok, refused, other;
    pthread_t thread;
};

static int yield(void *arg, void **value)
{
    *value = arg;
    sched_yield();
    return 0;
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *last = NULL;
    for (unsigned i = 0; i < TASKS_EACH; i++) {
        unsigned dice = (unsigned)rand_r(&producer->seed);
        stint_options options = STINT_OPTIONS_INIT;
        options.account = dice % 3 == 0 ? producer->account : NULL;
        options.priority = (stint_priority)(dice / 4 % 3);
        stint_future *future;
        uint64_t timeout = dice % 5 == 0 ? dice / 16 % 20000 : STINT_FOREVER;
        int error = stint_submit_wait(producer->pool, yield, producer, &options, timeout, &future);
        if (error == 0) {
            producer->accepted++;
            if (last != NULL) {
                stint_outcome outcome;
                stint_future_wait(last, &outcome);
                stint_future_release(last);
                producer->ok += outcome.status == STINT_OK;
            }
            last = future;
            if (dice / 64 % 8 == 0) {
                stint_future_cancel(future);
                stint_future_release(future);
                producer->ok++;
                last = NULL;
            }
        } else if (error == ETIMEDOUT && timeout != STINT_FOREVER) {
            producer->refused++;
        } else {
            producer->other++;
        }
    }
    if (last != NULL && stint_future_wait(last, NULL) == 0) {
        stint_future_release(last);
        producer->ok++;
    }
    return NULL;
}

TEST(every_submission_gets_a_place_or_its_time_out)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint_pool *pool;
        const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                             .workers = workers,
                                             .queue_capacity = 2 };
        assert_int_equal(stint_pool_create(&options, &pool), 0);
        stint_account *account;
        const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
        assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
        struct producer producers[PRODUCERS];
        for (unsigned i = 0; i < PRODUCERS; i++) {
            producers[i] = (struct producer){ .pool = pool, .account = account, .seed = i + 1 };
            assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
        }
        for (unsigned i = 0; i < PRODUCERS; i++) {
            pthread_join(producers[i].thread, NULL);
            assert_int_equal(producers[i].other, 0);
            assert_int_equal(producers[i].accepted + producers[i].refused, TASKS_EACH);
            assert_int_equal(producers[i].ok, producers[i].accepted);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
        stint_account_release(account);
    }
}

/* --- Long lines --------------------------------------------------------------------------------------------------- */

#define ROUNDS 10
#define FEW 64
#define MANY 512
#define ACCOUNTS 100

struct crowd {
    stint_pool *pool;
    stint_account *accounts[ACCOUNTS];
    unsigned count; /* of accounts; 0: plain tasks */
    pthread_barrier_t start;
    atomic_uint next;
    atomic_uint failed;
};

static void *submit_some(void *arg)
{
    struct crowd *crowd = arg;
    stint_options options = STINT_OPTIONS_INIT;
    unsigned number = atomic_fetch_add(&crowd->next, 1);
    options.account = crowd->count > 0 ? crowd->accounts[number % crowd->count] : NULL;
    pthread_barrier_wait(&crowd->start);
    for (int i = 0; i < ROUNDS; i++) {
        stint_future *future;
        if (stint_submit_wait(crowd->pool, give, NULL, &options, STINT_FOREVER, &future) != 0) {
            atomic_fetch_add(&crowd->failed, 1);
            continue;
        }
        if (stint_future_wait(future, NULL) != 0)
            atomic_fetch_add(&crowd->failed, 1);
        stint_future_release(future);
    }
    return NULL;
}

/* Processor time a task, which does not depend on what else the machine does. */
static double cost_of_a_task(unsigned threads, unsigned accounts)
{
    static pthread_t ids[MANY];
    struct crowd crowd = { .pool = make_pool(.workers = 2, .queue_capacity = CAPACITY), .count = accounts };
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    for (unsigned i = 0; i < accounts; i++)
        assert_int_equal(stint_account_create(NULL, i % 2 == 0 ? &limits : NULL, &crowd.accounts[i]), 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_barrier_init(&crowd.start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&ids[i], &attributes, submit_some, &crowd), 0);
    pthread_barrier_wait(&crowd.start);
    uint64_t begun = process_time_ns();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double cost = (double)(process_time_ns() - begun) * 1e-9 / (threads * ROUNDS);
    assert_int_equal(atomic_load(&crowd.failed), 0);
    pthread_barrier_destroy(&crowd.start);
    pthread_attr_destroy(&attributes);
    for (unsigned i = 0; i < accounts; i++)
        stint_account_release(crowd.accounts[i]);
    assert_int_equal(stint_pool_destroy(crowd.pool), 0);
    return cost;
}

TEST(to_stand_in_a_long_line_costs_no_more_than_in_a_short_one)
{
    static const unsigned accounts[] = { 0, 1, ACCOUNTS };
#if defined __SANITIZE_THREAD__
    skip_because("ThreadSanitizer sees how mimalloc hands memory between so many threads, but not why it may");
#endif
    for (int i = 0; i < 3; i++) {
        bool costs_more = true;
        for (int attempt = 0; attempt < 4 && costs_more; attempt++) /* others use the machine, too */
            costs_more = cost_of_a_task(MANY, accounts[i]) > 8 * cost_of_a_task(FEW, accounts[i]);
        assert_false(costs_more);
    }
}

TEST_MAIN()
