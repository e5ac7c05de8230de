/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is: priorities, accounts that take turns, accounts with their maximum of running tasks, the places in the
 * queue. One worker that is held at a gate while tasks are submitted makes the order a matter of rules, not of time. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"
#include <stint/stint.h>

#include "gate.h"

static stint_pool *make_pool(unsigned workers, size_t queue_capacity)
{
    stint_pool *pool;
    const stint_pool_options options = { .workers = workers, .queue_capacity = queue_capacity };
    assert_int_equal(stint_pool_create(&pool, &options), 0);
    return pool;
}

static stint_account *make_account(stint_account *parent, unsigned running)
{
    stint_account *account;
    const stint_account_limits limits = { .running = running };
    assert_int_equal(stint_account_create(&account, parent, &limits), 0);
    return account;
}

static unsigned running_in(const stint_account *account)
{
    stint_account_usage usage;
    assert_int_equal(stint_account_read(account, &usage), 0);
    return usage.running;
}

static stint_future *submit(stint_pool *pool, stint_fn *fn, void *arg, stint_account *account, stint_priority priority)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    options.priority = priority;
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, &options, &future), 0);
    return future;
}

static stint_outcome finish(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

/* --- One worker: the order of tasks ------------------------------------------------------------------------------- */

static atomic_uint turn;

/* Its value is its place in the order. */
static int take_turn(void *arg, void **value)
{
    (void)arg;
    *value = (void *)(uintptr_t)atomic_fetch_add(&turn, 1);
    return 0;
}

#define WORK_NS 100000

static uint64_t processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The same, of a task that takes as much processor time as every other. */
static int work_and_take_turn(void *arg, void **value)
{
    uint64_t end = processor_time() + WORK_NS;
    while (processor_time() < end)
        ;
    return take_turn(arg, value);
}

static unsigned turn_of(stint_future *future)
{
    stint_outcome outcome = finish(future);
    assert_int_equal(outcome.status, STINT_OK);
    return (unsigned)(uintptr_t)outcome.value;
}

struct held_pool {
    stint_pool *pool;
    struct gate gate;
    stint_future *holder;
};

static void hold(struct held_pool *held, size_t queue_capacity)
{
    memset(held, 0, sizeof *held);
    held->pool = make_pool(1, queue_capacity);
    held->holder = submit(held->pool, gate_hold, &held->gate, NULL, STINT_PRIORITY_NORMAL);
    gate_await(&held->gate, 1);
    atomic_store(&turn, 0);
}

static void let_go(struct held_pool *held)
{
    gate_open(&held->gate);
    finish(held->holder);
}

TEST(a_high_task_comes_before_a_normal_one_and_that_before_a_low_one)
{
    struct held_pool held;
    hold(&held, 0);
    stint_future *low = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_LOW);
    stint_future *normal = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    stint_future *high = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
    let_go(&held);
    assert_int_equal(turn_of(high), 0);
    assert_int_equal(turn_of(normal), 1);
    assert_int_equal(turn_of(low), 2);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
}

#define MANY 1000

TEST(a_flood_of_high_tasks_leaves_every_eighth_turn_to_normal_and_every_64th_to_low_ones)
{
    struct held_pool held;
    static stint_future *high[MANY], *normal[MANY], *low[MANY];
    hold(&held, 4096);
    for (unsigned i = 0; i < MANY; i++) {
        high[i] = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
        normal[i] = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
        low[i] = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_LOW);
    }
    let_go(&held);
    unsigned last_high = 0;
    for (unsigned i = 0; i < MANY; i++)
        last_high = turn_of(high[i]);
    unsigned before = 0;
    unsigned seen = 0;
    for (unsigned i = 0; i < MANY; i++) {
        unsigned at = turn_of(normal[i]);
        assert_in_range(at, before, before + 8);
        before = at;
        seen += at < last_high;
    }
    assert_in_range(seen, MANY / 10, MANY / 5); /* and not more: the others were high */
    before = 0;
    seen = 0;
    for (unsigned i = 0; i < MANY; i++) {
        unsigned at = turn_of(low[i]);
        assert_in_range(at, before, before + 64);
        before = at;
        seen += at < last_high;
    }
    assert_in_range(seen, MANY / 100, MANY / 40);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
}

/* By processor time: so a task that was held up by a page fault costs its account a turn. */
TEST(accounts_take_turns)
{
    enum { ACCOUNTS = 5, EACH = 40 };
    struct held_pool held;
    stint_account *accounts[ACCOUNTS];
    stint_future *futures[ACCOUNTS][EACH];
    hold(&held, 0);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        accounts[i] = make_account(NULL, 0);
        for (unsigned k = 0; k < EACH; k++)
            futures[i][k] = submit(held.pool, work_and_take_turn, NULL, accounts[i], STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        for (unsigned k = 0; k < EACH; k++)
            assert_in_range(turn_of(futures[i][k]), k / 2 * ACCOUNTS, k * ACCOUNTS * 3 / 2 + 2 * ACCOUNTS);
        stint_account_release(accounts[i]);
    }
    assert_int_equal(stint_pool_destroy(held.pool), 0);
}

#if defined __SANITIZE_THREAD__
#define FLOOD 100000 /* it takes twenty times as long */
#else
#define FLOOD 1000000
#endif

TEST(a_flood_of_one_account_delays_another_s_single_task_by_one_task)
{
    struct held_pool held;
    hold(&held, (size_t)FLOOD * 2);
    stint_account *greedy = make_account(NULL, 0);
    stint_account *modest = make_account(NULL, 0);
    for (unsigned i = 0; i < FLOOD; i++)
        stint_future_release(submit(held.pool, take_turn, NULL, greedy, STINT_PRIORITY_NORMAL));
    stint_future *single = submit(held.pool, take_turn, NULL, modest, STINT_PRIORITY_NORMAL);
    stint_future *plain = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    let_go(&held);
    assert_in_range(turn_of(single), 0, 2);
    assert_in_range(turn_of(plain), 0, 2);
    assert_int_equal(stint_pool_shutdown(held.pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(atomic_load(&turn), FLOOD + 2);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
    stint_account_release(greedy);
    stint_account_release(modest);
}

TEST(plain_tasks_are_one_tenant_among_the_others)
{
    enum { PLAIN = 500, EACH = 50 };
    struct held_pool held;
    stint_future *futures[3][EACH];
    stint_account *accounts[3];
    hold(&held, 0);
    for (unsigned i = 0; i < PLAIN; i++)
        stint_future_release(submit(held.pool, work_and_take_turn, NULL, NULL, STINT_PRIORITY_NORMAL));
    for (unsigned i = 0; i < 3; i++) {
        accounts[i] = make_account(NULL, 0);
        for (unsigned k = 0; k < EACH; k++)
            futures[i][k] = submit(held.pool, work_and_take_turn, NULL, accounts[i], STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < EACH; k++)
            assert_in_range(turn_of(futures[i][k]), k / 2 * 4, k * 6 + 8);
        stint_account_release(accounts[i]);
    }
    assert_int_equal(stint_pool_destroy(held.pool), 0);
}

struct parent {
    stint_pool *pool;
    stint_future *plain, *high, *of_account;
    stint_account *account;
};

static int submit_three(void *arg, void **value)
{
    struct parent *parent = arg;
    (void)value;
    parent->plain = submit(parent->pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    parent->of_account = submit(parent->pool, take_turn, NULL, parent->account, STINT_PRIORITY_NORMAL);
    parent->high = submit(parent->pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
    return 0;
}

TEST(what_a_task_submits_waits_where_its_account_and_priority_say)
{
    struct parent parent = { .pool = make_pool(1, 0), .account = make_account(NULL, 0) };
    atomic_store(&turn, 0);
    finish(submit(parent.pool, submit_three, &parent, NULL, STINT_PRIORITY_NORMAL));
    assert_int_equal(turn_of(parent.high), 0);
    assert_in_range(turn_of(parent.plain) + turn_of(parent.of_account), 3, 3);
    assert_int_equal(stint_pool_destroy(parent.pool), 0);
    stint_account_release(parent.account);
}

/* --- Places ------------------------------------------------------------------------------------------------------- */

static unsigned fill(stint_pool *pool, stint_account *account, stint_priority priority, stint_future **futures)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    options.priority = priority;
    unsigned count = 0;
    int error;
    while ((error = stint_submit(pool, take_turn, NULL, &options, &futures[count])) == 0)
        count++;
    assert_int_equal(error, EAGAIN);
    assert_null(futures[count]);
    return count;
}

TEST(one_account_cannot_take_every_place)
{
    enum { CAPACITY = 900 };
    struct held_pool held;
    static stint_future *futures[4][CAPACITY + 1];
    stint_account *accounts[3] = { make_account(NULL, 0), make_account(NULL, 0), make_account(NULL, 0) };
    hold(&held, CAPACITY);
    unsigned counts[4];
    for (unsigned i = 0; i < 3; i++)
        counts[i] = fill(held.pool, accounts[i], STINT_PRIORITY_NORMAL, futures[i]);
    counts[3] = fill(held.pool, NULL, STINT_PRIORITY_LOW, futures[3]);
    assert_int_equal(counts[0], CAPACITY / 9 * 8);
    for (unsigned i = 1; i < 4; i++)
        assert_true(counts[i] > 0);
    assert_true(counts[0] + counts[1] + counts[2] + counts[3] <= CAPACITY);
    /* Plain tasks have places of their own. */
    stint_future *plain = submit(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    let_go(&held);
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = 0; k < counts[i]; k++)
            turn_of(futures[i][k]);
    }
    turn_of(plain);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
    for (unsigned i = 0; i < 3; i++)
        stint_account_release(accounts[i]);
}

TEST(cancelling_one_that_waits_with_an_account_gives_its_place_back_at_once)
{
    struct held_pool held;
    stint_future *futures[10];
    stint_account *account = make_account(NULL, 0);
    hold(&held, 9);
    unsigned count = fill(held.pool, account, STINT_PRIORITY_NORMAL, futures);
    assert_int_equal(count, 8);
    for (int i = 0; i < 100; i++) {
        stint_future_cancel(futures[i % 8]);
        assert_int_equal(finish(futures[i % 8]).status, STINT_CANCELLED);
        futures[i % 8] = submit(held.pool, take_turn, NULL, account, STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < count; i++)
        turn_of(futures[i]);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
    stint_account_release(account);
}

/* --- Accounts with a maximum of running tasks --------------------------------------------------------------------- */

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
    stint_pool *pool = make_pool(3, 0);
    stint_account *small = make_account(NULL, 1);
    struct gate gate = { 0 };
    struct crowd crowd = { 0 };
    stint_future *holder = submit(pool, gate_hold, &gate, small, STINT_PRIORITY_NORMAL);
    gate_await(&gate, 1);
    stint_future *held_back[50];
    for (int i = 0; i < 50; i++)
        held_back[i] = submit(pool, be_inside, &crowd, small, STINT_PRIORITY_NORMAL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(finish(submit(pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL)).status, STINT_OK);
    assert_int_equal(atomic_load(&crowd.ran), 0);
    gate_open(&gate);
    for (int i = 0; i < 50; i++)
        assert_int_equal(finish(held_back[i]).status, STINT_OK);
    finish(holder);
    assert_int_equal(atomic_load(&crowd.most), 1);
    assert_int_equal(running_in(small), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(small);
}

TEST(the_maximum_of_an_account_above_holds_back_too_in_every_pool)
{
    enum { POOLS = 2, ACCOUNTS = 4, EACH = 200 };
    stint_pool *pools[POOLS] = { make_pool(2, 0), make_pool(2, 0) };
    stint_account *parent = make_account(NULL, 2);
    stint_account *accounts[ACCOUNTS];
    struct crowd crowd = { 0 };
    static stint_future *futures[ACCOUNTS * EACH];
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = make_account(parent, i == 0 ? 1 : 0);
    for (int i = 0; i < ACCOUNTS * EACH; i++)
        futures[i] = submit(pools[i / ACCOUNTS % POOLS], be_inside, &crowd, accounts[i % ACCOUNTS],
                            i % 3 == 0 ? STINT_PRIORITY_HIGH : STINT_PRIORITY_NORMAL);
    for (int i = 0; i < ACCOUNTS * EACH; i++)
        assert_int_equal(finish(futures[i]).status, STINT_OK);
    assert_in_range(atomic_load(&crowd.most), 1, 2);
    assert_int_equal(running_in(parent), 0);
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
    for (int i = 0; i < ACCOUNTS; i++)
        stint_account_release(accounts[i]);
    stint_account_release(parent);
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
    stint_pool *pool = make_pool(1, 0);
    struct outsider outsider = { .account = make_account(NULL, 1) };
    struct crowd crowd = { 0 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_outside, &outsider), 0);
    gate_await(&outsider.gate, 1);
    stint_future *future = submit(pool, be_inside, &crowd, outsider.account, STINT_PRIORITY_NORMAL);
    assert_int_equal(stint_future_wait_for(future, 2000000, NULL), ETIMEDOUT);
    gate_open(&outsider.gate);
    assert_int_equal(finish(future).status, STINT_OK);
    pthread_join(thread, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(outsider.account);
}

TEST(tasks_that_are_held_back_can_be_cancelled_and_shut_down_and_drained)
{
    for (int round = 0; round < 3; round++) {
        stint_pool *pool = make_pool(2, 0);
        struct outsider outsider = { .account = make_account(NULL, 1) };
        struct crowd crowd = { 0 };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_outside, &outsider), 0);
        gate_await(&outsider.gate, 1);
        stint_future *futures[20];
        for (int i = 0; i < 20; i++)
            futures[i] = submit(pool, be_inside, &crowd, outsider.account, (stint_priority)(i % 3));
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
            stint_outcome outcome = finish(futures[i]);
            assert_int_equal(outcome.status, round == 2 ? STINT_OK : STINT_CANCELLED);
            assert_int_equal(outcome.reason, round == 0   ? STINT_REASON_TOKEN
                                             : round == 1 ? STINT_REASON_SHUTDOWN
                                                          : STINT_REASON_NONE);
        }
        gate_open(&outsider.gate);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&crowd.ran), round == 2 ? 20 : 0);
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_int_equal(running_in(outsider.account), 0);
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
    struct generation first = { make_pool(1, 0), make_account(NULL, 1), 20 };
    assert_int_equal(finish(submit(first.pool, await_the_next, &first, first.account, STINT_PRIORITY_NORMAL)).error, 0);
    assert_int_equal(running_in(first.account), 0);
    assert_int_equal(stint_pool_destroy(first.pool), 0);
    stint_account_release(first.account);
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
    stint_pool *pool = make_pool(3, 100);
    stint_account *accounts[ACCOUNTS];
    struct crowd crowds[ACCOUNTS + 1] = { 0 };
    accounts[0] = make_account(NULL, 2);
    for (unsigned i = 1; i < ACCOUNTS; i++)
        accounts[i] = make_account(i < 4 ? accounts[0] : NULL, i % 2);
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
        assert_int_equal(running_in(accounts[i]), 0);
    }
    for (unsigned i = ACCOUNTS; i > 0; i--)
        stint_account_release(accounts[i - 1]);
}

/* --- Near the limit of the process -------------------------------------------------------------------------------- */

static size_t resident(void)
{
    char text[64] = { 0 };
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_non_null(fgets(text, sizeof text, statm));
    fclose(statm);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static int do_nothing(void *unused, void **value)
{
    (void)unused;
    (void)value;
    return 0;
}

/* How long a task is queued in a pool with the option, while another one runs and the process has this limit. */
static uint64_t queued_with_limit(size_t limit)
{
    const stint_pool_options options = { .workers = 2, .hold_near_memory_limit = true };
    stint_pool *pool;
    struct gate gate = { 0 };
    assert_int_equal(stint_pool_create(&pool, &options), 0);
    stint_future *running = submit(pool, gate_hold, &gate, NULL, STINT_PRIORITY_NORMAL);
    gate_await(&gate, 1);
    assert_int_equal(stint_set_global_memory_limit(limit), 0);
    stint_outcome held = finish(submit(pool, do_nothing, NULL, NULL, STINT_PRIORITY_NORMAL));
    assert_int_equal(stint_set_global_memory_limit(0), 0);
    assert_int_equal(held.status, STINT_OK);
    gate_open(&gate);
    finish(running);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return held.usage.queued_ns;
}

TEST(near_the_limit_of_the_process_a_task_waits_but_not_for_ever)
{
    stint_malloc_trim(0);
    /* So much that what can be given back does not matter. */
    const size_t ballast = (size_t)128 << 20;
    void *used = mmap(NULL, ballast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_ptr_not_equal(used, MAP_FAILED);
    assert_true(queued_with_limit(resident() + resident() / 16) >= 100000000);
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t queued = queued_with_limit(4 * resident());
        least = queued < least ? queued : least;
    }
    assert_true(least < 100000000); /* far from it none is held */
    munmap(used, ballast);
}

TEST_MAIN()
