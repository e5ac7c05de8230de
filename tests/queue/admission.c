/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is: priorities, accounts that take turns, the places in the queue. What is held back is in
 * running_limit.c. One worker that is held at a gate while tasks are submitted makes the order a matter of rules, not
 * of time. */
#include <sys/mman.h>

#include "pools.h"

/* --- One worker: the order of tasks ------------------------------------------------------------------------------- */

static atomic_uint turn;

/* Its value is its place in the order. */
static int take_turn(void *arg, void **value)
{
    (void)arg;
    *value = (void *)(uintptr_t)atomic_fetch_add(&turn, 1);
    return 0;
}

/* The same, of a task that occupies its worker for as long as every other: asleep, as what computes may be interrupted
 * for other processes, and that would count. */
static int sleep_and_take_turn(void *arg, void **value)
{
    usleep(1000);
    return take_turn(arg, value);
}

static unsigned turn_of(stint_future *future)
{
    stint_outcome outcome = take(future);
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
    held->pool = make_pool(.workers = 1, .queue_capacity = queue_capacity);
    held->holder = submit_as(held->pool, gate_hold, &held->gate, NULL, STINT_PRIORITY_NORMAL);
    gate_await(&held->gate, 1);
    atomic_store(&turn, 0);
}

static void let_go(struct held_pool *held)
{
    gate_open(&held->gate);
    take(held->holder);
}

TEST(a_high_task_comes_before_a_normal_one_and_that_before_a_low_one)
{
    struct held_pool held;
    hold(&held, 0);
    stint_future *low = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_LOW);
    stint_future *normal = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    stint_future *high = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
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
        high[i] = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
        normal[i] = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
        low[i] = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_LOW);
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

/* One of several tenants' tasks, in the order in which they ran. */
struct turn {
    unsigned tenant;
    uint64_t took;
};

static void note_turn(struct turn *turns, stint_future *future, unsigned tenant)
{
    stint_outcome outcome = take(future);
    assert_int_equal(outcome.status, STINT_OK);
    struct turn *at = &turns[(uintptr_t)outcome.value];
    at->tenant = tenant;
    at->took = outcome.usage.wall_ns;
}

enum { TENANTS_MOST = 5 };

/* Turns go by time on workers: a task that was held up costs its tenant some. So whoever's turn it is has had no more
 * time than whoever has had least and still waits, but for a task or two. */
static void assert_shared_evenly(const struct turn *turns, unsigned count, unsigned tenants)
{
    uint64_t had[TENANTS_MOST] = { 0 };
    unsigned left[TENANTS_MOST] = { 0 };
    uint64_t longest = 0;
    for (unsigned at = 0; at < count; at++)
        left[turns[at].tenant]++;
    for (unsigned at = 0; at < count; at++) {
        uint64_t least = UINT64_MAX;
        for (unsigned i = 0; i < tenants; i++)
            least = left[i] > 0 && had[i] < least ? had[i] : least;
        assert_true(had[turns[at].tenant] <= least + 2 * longest + 3 * MS);
        had[turns[at].tenant] += turns[at].took;
        left[turns[at].tenant]--;
        longest = turns[at].took > longest ? turns[at].took : longest;
    }
}

TEST(accounts_take_turns)
{
    enum { ACCOUNTS = TENANTS_MOST, EACH = 40, ALL = ACCOUNTS * EACH };
    struct held_pool held;
    stint_account *accounts[ACCOUNTS];
    stint_future *futures[ALL];
    struct turn turns[ALL];
    hold(&held, 0);
    for (unsigned i = 0; i < ALL; i++) {
        if (i % EACH == 0)
            accounts[i / EACH] = make_account(NULL);
        futures[i] = submit_as(held.pool, sleep_and_take_turn, NULL, accounts[i / EACH], STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < ALL; i++)
        note_turn(turns, futures[i], i / EACH);
    assert_shared_evenly(turns, ALL, ACCOUNTS);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        stint_account_release(accounts[i]);
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
    stint_account *greedy = make_account(NULL);
    stint_account *modest = make_account(NULL);
    for (unsigned i = 0; i < FLOOD; i++)
        stint_future_release(submit_as(held.pool, take_turn, NULL, greedy, STINT_PRIORITY_NORMAL));
    stint_future *single = submit_as(held.pool, take_turn, NULL, modest, STINT_PRIORITY_NORMAL);
    stint_future *plain = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
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
    enum { PLAIN = 500, ACCOUNTS = 3, EACH = 50, ALL = PLAIN + ACCOUNTS * EACH };
    struct held_pool held;
    stint_future *futures[ALL];
    stint_account *accounts[ACCOUNTS];
    struct turn turns[ALL];
    hold(&held, 0);
    for (unsigned i = 0; i < PLAIN; i++)
        futures[i] = submit_as(held.pool, sleep_and_take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    for (unsigned i = PLAIN; i < ALL; i++) {
        unsigned tenant = (i - PLAIN) / EACH;
        if ((i - PLAIN) % EACH == 0)
            accounts[tenant] = make_account(NULL);
        futures[i] = submit_as(held.pool, sleep_and_take_turn, NULL, accounts[tenant], STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < ALL; i++)
        note_turn(turns, futures[i], i < PLAIN ? ACCOUNTS : (i - PLAIN) / EACH);
    assert_shared_evenly(turns, ALL, ACCOUNTS + 1);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        stint_account_release(accounts[i]);
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
    parent->plain = submit_as(parent->pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
    parent->of_account = submit_as(parent->pool, take_turn, NULL, parent->account, STINT_PRIORITY_NORMAL);
    parent->high = submit_as(parent->pool, take_turn, NULL, NULL, STINT_PRIORITY_HIGH);
    return 0;
}

TEST(what_a_task_submits_waits_where_its_account_and_priority_say)
{
    struct parent parent = { .pool = make_pool(.workers = 1), .account = make_account(NULL) };
    atomic_store(&turn, 0);
    take(submit_as(parent.pool, submit_three, &parent, NULL, STINT_PRIORITY_NORMAL));
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
    stint_account *accounts[3] = { make_account(NULL), make_account(NULL), make_account(NULL) };
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
    stint_future *plain = submit_as(held.pool, take_turn, NULL, NULL, STINT_PRIORITY_NORMAL);
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
    stint_account *account = make_account(NULL);
    hold(&held, 9);
    unsigned count = fill(held.pool, account, STINT_PRIORITY_NORMAL, futures);
    assert_int_equal(count, 8);
    for (int i = 0; i < 100; i++) {
        stint_future_cancel(futures[i % 8]);
        assert_int_equal(take(futures[i % 8]).status, STINT_CANCELLED);
        futures[i % 8] = submit_as(held.pool, take_turn, NULL, account, STINT_PRIORITY_NORMAL);
    }
    let_go(&held);
    for (unsigned i = 0; i < count; i++)
        turn_of(futures[i]);
    assert_int_equal(stint_pool_destroy(held.pool), 0);
    stint_account_release(account);
}

/* --- Near the limit of the process -------------------------------------------------------------------------------- */

/* How long a task is queued in a pool with the option, while another one runs and the process has this limit. */
static uint64_t queued_with_limit(size_t limit)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = 2,
                                         .hold_near_memory_limit = true };
    stint_pool *pool;
    struct gate gate = { 0 };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    stint_future *running = submit_as(pool, gate_hold, &gate, NULL, STINT_PRIORITY_NORMAL);
    gate_await(&gate, 1);
    assert_int_equal(stint_global_set_memory_limit(limit), 0);
    stint_outcome held = take(submit_as(pool, do_nothing, NULL, NULL, STINT_PRIORITY_NORMAL));
    assert_int_equal(stint_global_set_memory_limit(0), 0);
    assert_int_equal(held.status, STINT_OK);
    gate_open(&gate);
    take(running);
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
