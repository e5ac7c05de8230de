/* SPDX-License-Identifier: MIT
 *
 * Accounts with a maximum of running tasks: the maximum is never passed and holds no other account back; a waiting
 * task can be cancelled, and goes on when a slot is free. */
#include "pools.h"

struct crowd {
    atomic_uint inside;
    atomic_uint most;
    atomic_uint ran;
};

static int be_inside(void *arg, void **value)
{
    struct crowd *crowd = arg;
    (void)value;
    unsigned inside = atomic_fetch_add(&crowd->inside, 1) + 1;
    unsigned most = atomic_load(&crowd->most);
    while (most < inside && !atomic_compare_exchange_weak(&crowd->most, &most, inside))
        ;
    sched_yield();
    atomic_fetch_sub(&crowd->inside, 1);
    atomic_fetch_add(&crowd->ran, 1);
    return 0;
}

TEST(an_account_s_maximum_holds_its_tasks_back_and_nobody_else_s)
{
    stint_pool *pool = make_pool(.workers = 3);
    stint_account *small = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    stint_future *holder = submit_for(pool, gate_hold, &gate, small);
    gate_await(&gate, 1);
    stint_future *held_back[50];
    for (int i = 0; i < 50; i++)
        held_back[i] = submit_for(pool, be_inside, &crowd, small);
    for (int i = 0; i < 50; i++)
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
    assert_int_equal(atomic_load(&crowd.ran), 0);
    gate_open(&gate);
    for (int i = 0; i < 50; i++)
        assert_int_equal(take(held_back[i]).status, STINT_OK);
    take(holder);
    assert_int_equal(atomic_load(&crowd.most), 1);
    assert_int_equal(usage_of(small).running, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(small);
}

static void await_held_back(const stint_pool *pool, size_t wanted)
{
    while (read_pool(pool).held_back != wanted)
        sched_yield();
}

TEST(the_statistics_count_what_is_held_back)
{
    enum { TASKS = 3 };
    stint_pool *pool = make_pool(.workers = 2);
    stint_account *small = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    stint_future *holder = submit_for(pool, gate_hold, &gate, small);
    gate_await(&gate, 1);
    stint_future *held_back[TASKS];
    for (int i = 0; i < TASKS; i++) {
        held_back[i] = submit_for(pool, be_inside, &crowd, small);
        await_held_back(pool, (size_t)i + 1);
    }
    stint_future_cancel(held_back[1]);
    await_held_back(pool, TASKS - 1);
    gate_open(&gate);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(take(held_back[i]).status, i == 1 ? STINT_CANCELLED : STINT_OK);
    take(holder);
    await_held_back(pool, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(small);
}

TEST(the_maximum_of_an_account_above_holds_back_too_in_every_pool)
{
    enum { POOLS = 2, ACCOUNTS = 4, EACH = 200 };
    stint_pool *pools[POOLS] = { make_pool(.workers = 2), make_pool(.workers = 2) };
    stint_account *parent = make_account(NULL, .running = 2);
    stint_account *accounts[ACCOUNTS];
    struct crowd crowd = { 0 };
    static stint_future *futures[ACCOUNTS * EACH];
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = make_account(parent, .running = i == 0 ? 1 : 0);
    for (int i = 0; i < ACCOUNTS * EACH; i++)
        futures[i] = submit_as(pools[i / ACCOUNTS % POOLS], be_inside, &crowd, accounts[i % ACCOUNTS],
                               i % 3 == 0 ? STINT_PRIORITY_HIGH : STINT_PRIORITY_NORMAL);
    for (int i = 0; i < ACCOUNTS * EACH; i++)
        assert_int_equal(take(futures[i]).status, STINT_OK);
    assert_in_range(atomic_load(&crowd.most), 1, 2);
    assert_int_equal(usage_of(parent).running, 0);
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    for (int i = 0; i < ACCOUNTS; i++)
        stint_account_release(accounts[i]);
    stint_account_release(parent);
}

static int await_future(void *future, void **value)
{
    (void)value;
    return stint_future_wait(future, NULL);
}

/* The first one in the account has waited for longest, so the slot is for it; but all who could run it fall asleep
 * behind others. */
TEST(a_slot_goes_on_to_another_pool_where_all_threads_of_the_one_that_has_it_fall_asleep)
{
    stint_pool *bare = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
    stint_pool *other = make_pool(.workers = 1);
    stint_account *small = make_account(NULL, .running = 1);
    stint_options urgent = STINT_OPTIONS_INIT;
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    urgent.priority = STINT_PRIORITY_HIGH;
    stint_future *holder = submit_for(bare, gate_hold, &gate, small);
    gate_await(&gate, 1);
    stint_future *first = submit_for(bare, be_inside, &crowd, small);
    await_held_back(bare, 1);
    stint_future *second = submit_for(other, be_inside, &crowd, small);
    await_held_back(other, 1);
    stint_future *sleeper = submit(bare, await_future, second, NULL);
    while (read_pool(bare).asleep == 0)
        sched_yield();
    stint_future *last = submit(bare, await_future, second, &urgent);
    gate_open(&gate);
    assert_ok(take_in_time(sleeper));
    assert_ok(take_in_time(last));
    assert_ok(take_in_time(first));
    take(second);
    take(holder);
    assert_int_equal(atomic_load(&crowd.most), 1);
    assert_int_equal(stint_pool_destroy(bare), 0);
    assert_int_equal(stint_pool_destroy(other), 0);
    stint_account_release(small);
}

static int await_published(void *future, void **value)
{
    (void)value;
    return stint_future_wait(await_pointer(future), NULL);
}

/* The first waits for the second, which waits for what the first one's slot holds back: but there is another slot,
 * until its task has ended and there is none any more. */
TEST(a_wait_is_refused_when_the_last_slot_that_would_have_ended_it_has_gone)
{
    stint_pool *pool = make_pool(.workers = 4);
    stint_pool *other = make_pool(.workers = 1);
    stint_account *small = make_account(NULL, .running = 2);
    const stint_account_limits fewer = { .size = sizeof fewer, .running = 1 };
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    stint_future *_Atomic published = NULL;
    stint_future *holder = submit_for(pool, gate_hold, &gate, small);
    gate_await(&gate, 1);
    stint_future *first = submit_for(pool, await_published, &published, small);
    while (usage_of(small).running < 2)
        sched_yield();
    stint_future *held = submit_for(other, be_inside, &crowd, small);
    await_held_back(other, 1);
    stint_future *second = submit(pool, await_future, held, NULL);
    while (read_pool(pool).asleep < 1)
        sched_yield(); /* or the first would run it */
    atomic_store(&published, second);
    while (read_pool(pool).asleep < 2)
        sched_yield();
    assert_int_equal(stint_account_set_limits(small, &fewer), 0);
    nap_ms(50);
    assert_false(stint_future_is_ready(first) || stint_future_is_ready(second));
    gate_open(&gate);
    stint_outcome outcomes[] = { take_in_time(first), take_in_time(second) };
    assert_true((outcomes[0].error == EAGAIN) != (outcomes[1].error == EAGAIN));
    assert_ok(take_in_time(held));
    take(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_pool_destroy(other), 0);
    stint_account_release(small);
}

struct outsider {
    stint_account *account;
    struct gate gate;
};

static void *run_outside(void *arg)
{
    struct outsider *outsider = arg;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = outsider->account;
    stint_outcome outcome;
    return (void *)(intptr_t)stint_run(gate_hold, &outsider->gate, &options, &outcome);
}

TEST(a_slot_that_stint_run_gives_back_lets_a_task_go_on)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct outsider outsider = { .account = make_account(NULL, .running = 1) };
    struct crowd crowd = { 0 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_outside, &outsider), 0);
    gate_await(&outsider.gate, 1);
    stint_future *future = submit_for(pool, be_inside, &crowd, outsider.account);
    assert_int_equal(stint_future_wait_for(future, 2000000, NULL), ETIMEDOUT);
    gate_open(&outsider.gate);
    assert_int_equal(take(future).status, STINT_OK);
    pthread_join(thread, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(outsider.account);
}

TEST(tasks_that_are_held_back_can_be_cancelled_and_shut_down_and_drained)
{
    for (int round = 0; round < 3; round++) {
        stint_pool *pool = make_pool(.workers = 2);
        struct outsider outsider = { .account = make_account(NULL, .running = 1) };
        struct crowd crowd = { 0 };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_outside, &outsider), 0);
        gate_await(&outsider.gate, 1);
        stint_future *futures[20];
        for (int i = 0; i < 20; i++)
            futures[i] = submit_as(pool, be_inside, &crowd, outsider.account, (stint_priority)(i % 3));
        if (round == 0) {
            for (int i = 0; i < 20; i++)
                stint_future_cancel(futures[i]);
        } else if (round == 1) {
            assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
        } else {
            assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, 1000000), ETIMEDOUT);
            gate_open(&outsider.gate);
            assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
        }
        for (int i = 0; i < 20; i++) {
            stint_outcome outcome = take(futures[i]);
            assert_int_equal(outcome.status, round == 2 ? STINT_OK : STINT_CANCELLED);
            assert_int_equal(outcome.reason, round == 0   ? STINT_REASON_TOKEN
                                             : round == 1 ? STINT_REASON_SHUTDOWN
                                                          : STINT_REASON_NONE);
        }
        gate_open(&outsider.gate);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&crowd.ran), round == 2 ? 20 : 0);
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_int_equal(usage_of(outsider.account).running, 0);
        stint_account_release(outsider.account);
    }
}

struct generation {
    stint_pool *pool;
    stint_account *account;
    unsigned left;
};

static int await_the_next(void *arg, void **value)
{
    const struct generation *this = arg;
    (void)value;
    if (this->left == 0)
        return 0;
    struct generation next = { this->pool, this->account, this->left - 1 };
    stint_options options = STINT_OPTIONS_INIT;
    options.account = this->account;
    stint_future *future;
    stint_outcome outcome;
    int error = stint_submit(this->pool, await_the_next, &next, &options, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, &outcome);
    stint_future_release(future);
    return error != 0 ? error : outcome.error;
}

TEST(a_task_that_waits_for_one_of_its_own_account_makes_way_for_it)
{
    struct generation first = { make_pool(.workers = 1), make_account(NULL, .running = 1), 20 };
    assert_int_equal(take(submit_for(first.pool, await_the_next, &first, first.account)).error, 0);
    assert_int_equal(usage_of(first.account).running, 0);
    assert_int_equal(stint_pool_destroy(first.pool), 0);
    stint_account_release(first.account);
}

struct pair {
    struct gate begin;
    stint_future *_Atomic awaited;
};

static int await_it_in_its_account(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    gate_hold(&pair->begin, value);
    return stint_future_wait(await_pointer(&pair->awaited), NULL);
}

/* Where it has the account's last slot, and the task with the other one goes on for long. */
TEST(a_task_runs_what_it_waits_for_in_its_own_full_account_without_falling_asleep)
{
    stint_pool *pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
    stint_account *account = make_account(NULL, .running = 2);
    struct pair pair = { .awaited = NULL };
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    stint_future *holder = submit_for(pool, gate_hold, &gate, account);
    stint_future *waiter = submit_for(pool, await_it_in_its_account, &pair, account);
    gate_await(&gate, 1);
    gate_await(&pair.begin, 1);
    stint_future *awaited = submit_for(pool, be_inside, &crowd, account);
    atomic_store(&pair.awaited, awaited);
    gate_open(&pair.begin);
    assert_ok(take_in_time(waiter));
    assert_int_equal(atomic_load(&crowd.ran), 1);
    assert_int_equal(read_pool(pool).unreplaced, 0);
    gate_open(&gate);
    assert_ok(take(holder));
    assert_ok(take(awaited));
    assert_int_equal(usage_of(account).running, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

/* --- All at once -------------------------------------------------------------------------------------------------- */

#define PRODUCERS 4
#define TASKS_EACH 10000
#define WINDOW 64
#define ACCOUNTS 6

struct producer {
    stint_pool *pool;
    stint_account **accounts;
    struct crowd *crowds;
    pthread_t thread;
    unsigned seed;
    unsigned ok, cancelled, other;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *window[WINDOW];
    size_t oldest = 0;
    size_t newest = 0;
    while (oldest < TASKS_EACH) {
        unsigned dice = (unsigned)rand_r(&producer->seed);
        unsigned which = dice % (ACCOUNTS + 1);
        stint_options options = STINT_OPTIONS_INIT;
        options.account = which < ACCOUNTS ? producer->accounts[which] : NULL;
        options.priority = (stint_priority)(dice / 64 % 3);
        if (newest < TASKS_EACH && newest - oldest < WINDOW &&
            stint_submit(producer->pool, be_inside, &producer->crowds[which], &options, &window[newest % WINDOW]) ==
                0) {
            newest++;
            if (dice / 1024 % 3 == 0)
                stint_future_cancel(window[(oldest + dice % (newest - oldest)) % WINDOW]);
        } else if (oldest < newest) {
            stint_outcome outcome;
            stint_future_wait(window[oldest % WINDOW], &outcome);
            stint_future_release(window[oldest++ % WINDOW]);
            if (outcome.status == STINT_OK)
                producer->ok++;
            else if (outcome.reason == STINT_REASON_TOKEN)
                producer->cancelled++;
            else
                producer->other++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

TEST(all_tasks_of_many_tenants_resolve_and_no_maximum_is_passed)
{
    stint_pool *pool = make_pool(.workers = 3, .queue_capacity = 100);
    stint_account *accounts[ACCOUNTS];
    struct crowd crowds[ACCOUNTS + 1] = { 0 };
    accounts[0] = make_account(NULL, .running = 2);
    for (unsigned i = 1; i < ACCOUNTS; i++)
        accounts[i] = make_account(i < 4 ? accounts[0] : NULL, .running = i % 2);
    struct producer producers[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pool = pool, .accounts = accounts, .crowds = crowds, .seed = i + 1 };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        assert_int_equal(producers[i].other, 0);
        assert_int_equal(producers[i].ok + producers[i].cancelled, TASKS_EACH);
        assert_true(producers[i].ok > 0);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        if (i % 2 == 1)
            assert_int_equal(atomic_load(&crowds[i].most), 1);
        assert_int_equal(usage_of(accounts[i]).running, 0);
    }
    for (unsigned i = ACCOUNTS; i > 0; i--)
        stint_account_release(accounts[i - 1]);
}

TEST_MAIN()
