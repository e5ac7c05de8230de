/* SPDX-License-Identifier: MIT
 *
 * Limits of accounts on a pool's tasks: they can change while the account lives; only a number of tasks may wait; and
 * a free slot goes to the task that has waited longest for it, in whatever pool. */
#include "pools.h"

static int submit_to(stint_pool *pool, stint_fn *fn, void *arg, stint_account *account, stint_future **future)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    return stint_submit(pool, fn, arg, &options, future);
}

/* --- Changing them ------------------------------------------------------------------------------------------------ */

TEST(more_slots_let_begin_what_was_held_back)
{
    enum { TASKS = 3 };
    stint_pool *pool = make_pool(.workers = TASKS);
    stint_account *account = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    stint_future *futures[TASKS];
    for (int i = 0; i < TASKS; i++)
        futures[i] = submit_for(pool, gate_hold, &gate, account);
    gate_await(&gate, 1);
    assert_int_equal(stint_account_set_limits(
                         account, &(stint_account_limits){ .size = sizeof(stint_account_limits), .running = 2 }),
                     0);
    gate_await(&gate, 2);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    assert_int_equal(statistics.waiting, 1);
    assert_int_equal(stint_account_set_limits(
                         account, &(stint_account_limits){ .size = sizeof(stint_account_limits), .running = 0 }),
                     0);
    gate_await(&gate, 3);
    gate_open(&gate);
    for (int i = 0; i < TASKS; i++)
        assert_ok(take(futures[i]));
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

static int allocate_so_much(void *arg, void **value)
{
    (void)value;
    return keep(stint_malloc(*(size_t *)arg)) != NULL ? 0 : ENOMEM;
}

TEST(other_limits_of_bytes_and_slots_hold_from_now_on)
{
    stint_account *account = make_account(NULL, .allocation = MIB);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    size_t size = 2 * MIB;
    assert_outcome(run_task(allocate_so_much, &size, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    assert_int_equal(stint_account_set_limits(account, &(stint_account_limits){ .size = sizeof(stint_account_limits),
                                                                                .allocation = 3 * MIB }),
                     0);
    stint_outcome outcome = run_task(allocate_so_much, &size, &options);
    assert_ok(outcome);
    assert_int_equal(stint_account_set_limits(
                         account, &(stint_account_limits){ .size = sizeof(stint_account_limits), .allocation = MIB }),
                     0);
    size = 1; /* it has had more than that */
    assert_outcome(run_task(allocate_so_much, &size, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    assert_int_equal(stint_account_set_limits(
                         account, &(stint_account_limits){ .size = sizeof(stint_account_limits), .memory = 64 * KIB }),
                     0);
    size = MIB;
    assert_outcome(run_task(allocate_so_much, &size, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    stint_account_release(account);
}

TEST(bad_limits_are_refused)
{
    stint_account *account;
    const stint_account_limits heavy = { .size = sizeof(stint_account_limits), .weight = 10001 };
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .weight = 10000 };
    assert_int_equal(stint_account_create(NULL, &heavy, &account), EINVAL);
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    assert_int_equal(stint_account_set_limits(account, &heavy), EINVAL);
    assert_int_equal(stint_account_set_limits(account, NULL), EINVAL);
    assert_int_equal(stint_account_set_limits(NULL, &limits), EINVAL);
    stint_account_release(account);
}

/* --- Waiting tasks ------------------------------------------------------------------------------------------------ */

TEST(so_many_tasks_of_an_account_may_wait)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_account *parent = make_account(NULL, .waiting = 5);
    stint_account *account = make_account(parent, .waiting = 3);
    stint_account *sibling = make_account(parent, .waiting = 0);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *holder = submit_for(pool, gate_hold, &gate, account);
    gate_await(&gate, 1);
    stint_future *futures[5], *refused;
    for (int i = 0; i < 3; i++)
        futures[i] = submit_for(pool, count_run, &ran, account);
    assert_int_equal(submit_to(pool, count_run, &ran, account, &refused), EDQUOT);
    assert_null(refused);
    for (int i = 3; i < 5; i++)
        futures[i] = submit_for(pool, count_run, &ran, sibling);
    assert_int_equal(submit_to(pool, count_run, &ran, sibling, &refused), EDQUOT);
    assert_int_equal(usage_of(account).waiting, 3);
    assert_int_equal(usage_of(sibling).waiting, 2);
    assert_int_equal(usage_of(parent).waiting, 5);
    /* One that is gone makes room at once. */
    stint_future_cancel(futures[0]);
    assert_int_equal(usage_of(parent).waiting, 4);
    stint_future_release(futures[0]);
    futures[0] = submit_for(pool, count_run, &ran, account);
    stint_future *plain = submit_for(pool, count_run, &ran, NULL); /* others are not concerned */
    gate_open(&gate);
    assert_ok(take(holder));
    assert_ok(take(plain));
    for (int i = 0; i < 5; i++)
        assert_ok(take(futures[i]));
    assert_int_equal(usage_of(parent).waiting, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
    stint_account_release(sibling);
    stint_account_release(parent);
}

struct waiter {
    stint_pool *pool;
    stint_account *account;
    atomic_uint *ran;
    pthread_t thread;
    stint_future *future;
    int error;
};

static void *submit_and_wait(void *arg)
{
    struct waiter *waiter = arg;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = waiter->account;
    waiter->error = stint_submit_wait(waiter->pool, count_run, waiter->ran, &options, STINT_FOREVER, &waiter->future);
    return NULL;
}

/* In the pool where one begins, in another one, and when the limit is changed. */
TEST(who_submits_and_waits_is_put_when_the_account_has_room)
{
    enum { WAITERS = 6 };
    stint_pool *pools[2] = { make_pool(.workers = 1), make_pool(.workers = 1) };
    stint_account *account = make_account(NULL, .waiting = 1);
    atomic_uint ran = 0;
    for (int way = 0; way < 2; way++) {
        struct gate gate = { 0 };
        struct waiter waiters[WAITERS];
        stint_future *holders[2], *queued, *late;
        for (int i = 0; i < 2; i++)
            holders[i] = submit_for(pools[i], gate_hold, &gate, NULL);
        gate_await(&gate, 2);
        queued = submit_for(pools[0], count_run, &ran, account);
        stint_options options = STINT_OPTIONS_INIT;
        options.account = account;
        assert_int_equal(stint_submit_wait(pools[0], count_run, &ran, &options, MS, &late), ETIMEDOUT);
        assert_int_equal(stint_submit_wait(pools[1], count_run, &ran, &options, MS, &late), ETIMEDOUT);
        for (int i = 0; i < WAITERS; i++) {
            waiters[i] = (struct waiter){ .pool = pools[i % 2], .account = account, .ran = &ran };
            assert_int_equal(pthread_create(&waiters[i].thread, NULL, submit_and_wait, &waiters[i]), 0);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        assert_int_equal(usage_of(account).waiting, 1);
        if (way == 0)
            gate_open(&gate);
        else
            assert_int_equal(
                stint_account_set_limits(
                    account, &(stint_account_limits){ .size = sizeof(stint_account_limits), .waiting = 100 }),
                0);
        for (int i = 0; i < WAITERS; i++) {
            pthread_join(waiters[i].thread, NULL);
            assert_int_equal(waiters[i].error, 0);
        }
        gate_open(&gate);
        for (int i = 0; i < WAITERS; i++)
            assert_ok(take(waiters[i].future));
        assert_ok(take(queued));
        for (int i = 0; i < 2; i++)
            assert_ok(take(holders[i]));
    }
    assert_int_equal(atomic_load(&ran), 2 * (WAITERS + 1));
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    assert_int_equal(usage_of(account).waiting, 0);
    stint_account_release(account);
}

/* --- A slot for one ----------------------------------------------------------------------------------------------- */

static int spin_a_little(void *arg, void **value)
{
    for (unsigned i = 0; i < 20000; i++)
        keep(&i);
    return count_run(arg, value);
}

struct single {
    atomic_uint *others;
    unsigned others_before;
};

static int look_at_the_others(void *arg, void **value)
{
    struct single *single = arg;
    (void)value;
    single->others_before = atomic_load(single->others);
    return 0;
}

TEST(a_task_of_another_pool_does_not_wait_for_this_pool_s_backlog)
{
    enum { BACKLOG = 2000 };
    stint_pool *pools[2] = { make_pool(.workers = 1, .queue_capacity = 4096), make_pool(.workers = 1) };
    stint_account *account = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    struct single single = { .others = &ran };
    static stint_future *backlog[BACKLOG];
    stint_future *holder = submit_for(pools[0], gate_hold, &gate, account);
    gate_await(&gate, 1);
    for (int i = 0; i < BACKLOG; i++)
        backlog[i] = submit_for(pools[0], spin_a_little, &ran, account);
    stint_future *future = submit_for(pools[1], look_at_the_others, &single, account);
    assert_int_equal(stint_future_wait_for(future, 50 * MS, NULL), ETIMEDOUT); /* it is refused the slot */
    gate_open(&gate);
    assert_ok(take(future));
    assert_ok(take(holder));
    for (int i = 0; i < BACKLOG; i++)
        assert_ok(take(backlog[i]));
    /* One of them at most when its worker was not asleep yet. */
    assert_in_range(single.others_before, 0, 2);
    assert_int_equal(usage_of(account).running, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    stint_account_release(account);
}

static void await_held_back(const stint_pool *pool, size_t wanted)
{
    while (read_pool(pool).held_back != wanted)
        gate_nap();
}

struct in_order {
    atomic_uint *next;
    unsigned place;
};

static int take_a_place(void *arg, void **value)
{
    struct in_order *in_order = arg;
    (void)value;
    in_order->place = atomic_fetch_add(in_order->next, 1);
    return 0;
}

#define LONG_WAIT_MS 110 /* by then a slot is given to the pool whose task was refused first, idle or not */

/* The slot comes from another pool: so it is given to one of the tasks that are held back here. */
TEST(a_slot_is_for_the_task_that_was_refused_first_whatever_its_priority)
{
    for (int order = 0; order < 2; order++) {
        stint_pool *pools[2] = { make_pool(.workers = 1), make_pool(.workers = 1) };
        stint_account *account = make_account(NULL, .running = 1);
        struct gate gate = { 0 };
        atomic_uint next = 0;
        struct in_order places[2] = { { .next = &next }, { .next = &next } };
        stint_future *futures[2];
        stint_future *holder = submit_for(pools[0], gate_hold, &gate, account);
        gate_await(&gate, 1);
        for (int i = 0; i < 2; i++) {
            futures[i] = submit_as(pools[1], take_a_place, &places[i], account,
                                   i == order ? STINT_PRIORITY_LOW : STINT_PRIORITY_HIGH);
            await_held_back(pools[1], (size_t)i + 1);
        }
        nap_ms(LONG_WAIT_MS);
        gate_open(&gate);
        for (int i = 0; i < 2; i++) {
            assert_ok(take_in_time(futures[i]));
            assert_int_equal(places[i].place, i);
        }
        assert_ok(take(holder));
        for (int i = 0; i < 2; i++)
            assert_int_equal(stint_pool_destroy(pools[i]), 0);
        stint_account_release(account);
    }
}

struct outsider {
    stint_account *account;
    struct gate gate;
    pthread_t thread;
};

static void *run_outside(void *arg)
{
    struct outsider *outsider = arg;
    const stint_options options = { .size = sizeof options, .account = outsider->account };
    stint_outcome outcome;
    return (void *)(intptr_t)stint_run(gate_hold, &outsider->gate, &options, &outcome);
}

/* The first one was refused by the account above, which has a slot again when its own account has none any more. */
TEST(a_slot_that_the_first_in_line_cannot_use_is_given_to_the_next)
{
    stint_pool *pools[3];
    stint_account *parent = make_account(NULL, .running = 2);
    stint_account *account = make_account(parent, .running = 2);
    struct outsider outsider = { .account = make_account(parent, .running = 0) };
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    for (int i = 0; i < 3; i++)
        pools[i] = make_pool(.workers = 1);
    stint_future *holder = submit_for(pools[0], gate_hold, &gate, account);
    gate_await(&gate, 1);
    assert_int_equal(pthread_create(&outsider.thread, NULL, run_outside, &outsider), 0);
    gate_await(&outsider.gate, 1);
    stint_future *first = submit_for(pools[1], count_run, &ran, account);
    await_held_back(pools[1], 1);
    stint_future *next = submit_for(pools[2], count_run, &ran, outsider.account);
    await_held_back(pools[2], 1);
    nap_ms(LONG_WAIT_MS);
    const stint_account_limits fewer = { .size = sizeof fewer, .running = 1 };
    assert_int_equal(stint_account_set_limits(account, &fewer), 0);
    gate_open(&outsider.gate);
    assert_ok(take_in_time(next));
    assert_false(stint_future_is_ready(first));
    gate_open(&gate);
    assert_ok(take_in_time(first));
    assert_ok(take(holder));
    pthread_join(outsider.thread, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    stint_account_release(outsider.account);
    stint_account_release(account);
    stint_account_release(parent);
}

struct runner {
    stint_account *account;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint runs;
};

static void *run_in_a_loop(void *arg)
{
    struct runner *runner = arg;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = runner->account;
    stint_outcome outcome;
    while (!atomic_load(&runner->stop))
        stint_run(spin_a_little, &runner->runs, &options, &outcome);
    return NULL;
}

TEST(a_task_gets_the_slot_beside_a_loop_of_stint_run)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct runner runner = { .account = make_account(NULL, .running = 1) };
    atomic_uint ran = 0;
    assert_int_equal(pthread_create(&runner.thread, NULL, run_in_a_loop, &runner), 0);
    while (atomic_load(&runner.runs) == 0)
        gate_nap();
    for (int i = 0; i < 20; i++)
        assert_ok(take(submit_for(pool, count_run, &ran, runner.account)));
    atomic_store(&runner.stop, true);
    pthread_join(runner.thread, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(runner.account);
}

/* Seconds of processor time a task, for this many accounts with a task each, below an account with one slot. */
static double cost_of_herd(unsigned accounts)
{
    stint_pool *pool = make_pool(.workers = 2, .queue_capacity = 2 * accounts);
    stint_account *parent = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future **futures = calloc(accounts, sizeof *futures);
    assert_non_null(futures);
    stint_future *holder = submit_for(pool, gate_hold, &gate, parent);
    gate_await(&gate, 1);
    for (unsigned i = 0; i < accounts; i++) {
        stint_account *account = make_account(parent, .waiting = 0);
        futures[i] = submit_for(pool, spin_a_little, &ran, account);
        stint_account_release(account);
    }
    uint64_t begun = process_time_ns();
    gate_open(&gate);
    for (unsigned i = 0; i < accounts; i++)
        assert_ok(take(futures[i]));
    double cost = (double)(process_time_ns() - begun) * 1e-9 / accounts;
    assert_ok(take(holder));
    assert_int_equal(atomic_load(&ran), accounts);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(parent);
    free(futures);
    return cost;
}

TEST(a_slot_that_many_accounts_wait_for_wakes_one_of_them)
{
    double few = cost_of_herd(250);
    double many = cost_of_herd(8000);
    assert_true(many < 4 * few);
}

/* --- All at once -------------------------------------------------------------------------------------------------- */

#define PRODUCERS 4
#define TASKS_EACH 4000
#define WINDOW 32
#define ACCOUNTS 6

struct producer {
    pthread_t thread;
    stint_pool **pools;
    stint_account **accounts;
    atomic_uint *ran;
    uint64_t seed;
    unsigned resolved;
};

static stint_account_limits random_limits(uint64_t *seed)
{
    return (stint_account_limits){ .size = sizeof(stint_account_limits),
                                   .running = (unsigned)random_below(seed, 4),
                                   .waiting = random_below(seed, 3) * 8,
                                   .weight = (unsigned)random_below(seed, 3) * 100 };
}

static int submit_at_random(const struct producer *producer, uint64_t *seed, stint_future **future)
{
    size_t dice = random_below(seed, 1000);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = producer->accounts[dice % ACCOUNTS];
    options.priority = (stint_priority)(dice / ACCOUNTS % 3);
    options.budget.wall_ns = dice % 7 == 0 ? MS : 0;
    stint_pool *pool = producer->pools[dice / 32 % 2];
    if (dice % 3 == 0)
        return stint_submit_wait(pool, spin_a_little, producer->ran, &options, 2 * MS, future);
    return stint_submit(pool, spin_a_little, producer->ran, &options, future);
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *window[WINDOW] = { NULL };
    for (unsigned i = 0; i < TASKS_EACH + WINDOW; i++) {
        unsigned at = i % WINDOW;
        if (window[at] != NULL) {
            stint_future_wait(window[at], NULL);
            stint_future_release(window[at]);
            producer->resolved++;
        }
        window[at] = NULL;
        if (i < TASKS_EACH && submit_at_random(producer, &producer->seed, &window[at]) != 0)
            window[at] = NULL;
        if (window[at] != NULL && random_below(&producer->seed, 10) == 0)
            stint_future_cancel(window[at]);
        if (random_below(&producer->seed, 50) == 0) {
            const stint_account_limits limits = random_limits(&producer->seed);
            stint_account_set_limits(producer->accounts[random_below(&producer->seed, ACCOUNTS)], &limits);
        }
        if (random_below(&producer->seed, 20) == 0) {
            stint_options options = { .size = sizeof(stint_options),
                                      .account = producer->accounts[random_below(&producer->seed, ACCOUNTS)] };
            stint_outcome outcome;
            stint_run(spin_a_little, producer->ran, &options, &outcome);
        }
    }
    return NULL;
}

TEST(every_task_resolves_whatever_happens_to_the_limits)
{
    stint_pool *pools[2] = { make_pool(.workers = 2, .queue_capacity = 128),
                             make_pool(.workers = 1, .queue_capacity = 128) };
    stint_account *accounts[ACCOUNTS];
    struct producer producers[PRODUCERS];
    atomic_uint ran = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = make_account(i == 0 ? NULL : accounts[i / 2], .running = 2);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pools = pools, .accounts = accounts, .ran = &ran, .seed = i };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        assert_true(producers[i].resolved > TASKS_EACH / 4);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_pool_shutdown(pools[i], STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    }
    for (int i = 0; i < ACCOUNTS; i++) {
        assert_int_equal(usage_of(accounts[i]).running, 0);
        assert_int_equal(usage_of(accounts[i]).waiting, 0);
    }
    for (int i = ACCOUNTS; i > 0; i--)
        stint_account_release(accounts[i - 1]);
}

TEST_MAIN()
