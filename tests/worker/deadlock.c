/* SPDX-License-Identifier: MIT
 *
 * Waits that would never end: circles of tasks, subtasks and accounts; and what only looks like one. */
#include "pools.h"

/* --- Circles of tasks --------------------------------------------------------------------------------------------- */

#define LONGEST 5

struct ring {
    unsigned length;
    atomic_uint begun;
    atomic_uint deadlocks;
    atomic_uint others; /* waits that failed in another way */
    stint_future *_Atomic futures[LONGEST];
    struct member {
        struct ring *ring;
        unsigned index;
        uint64_t timeout_ns; /* 0: as long as it takes */
    } members[LONGEST];
};

static struct member *member_of(struct ring *ring, unsigned i)
{
    ring->members[i].ring = ring;
    ring->members[i].index = i;
    return &ring->members[i];
}

/* The task that gets the error ends, and so the others' waits end. */
static int await_next(void *arg, void **value)
{
    const struct member *member = arg;
    struct ring *ring = member->ring;
    (void)value;
    atomic_fetch_add(&ring->begun, 1);
    while (atomic_load(&ring->begun) < ring->length)
        gate_nap();
    stint_future *next = await_pointer(&ring->futures[(member->index + 1) % ring->length]);
    int error =
        member->timeout_ns == 0 ? stint_future_wait(next, NULL) : stint_future_wait_for(next, member->timeout_ns, NULL);
    if (error == EDEADLK)
        atomic_fetch_add(&ring->deadlocks, 1);
    else if (error != 0)
        atomic_fetch_add(&ring->others, 1);
    return error;
}

static void start_ring(struct ring *ring, stint_pool *const pools[2])
{
    for (unsigned i = 0; i < ring->length; i++)
        atomic_store(&ring->futures[i], submit(pools[i % 2], await_next, member_of(ring, i), NULL));
}

static void end_ring(struct ring *ring)
{
    for (unsigned i = 0; i < ring->length; i++)
        assert_int_equal(stint_future_wait_for(ring->futures[i], 60000 * MS, NULL), 0);
    for (unsigned i = 0; i < ring->length; i++)
        stint_future_release(ring->futures[i]);
}

TEST(one_wait_of_a_circle_fails_and_so_all_of_them_end)
{
    for (unsigned length = 2; length <= LONGEST; length++) {
        for (unsigned pools = 1; pools <= 2; pools++) {
            stint_pool *one = make_pool(.workers = LONGEST);
            stint_pool *other = make_pool(.workers = LONGEST, .substitutes = STINT_NO_SUBSTITUTES);
            struct ring ring = { .length = length };
            start_ring(&ring, (stint_pool *const[]){ one, pools == 1 ? one : other });
            end_ring(&ring);
            assert_int_equal(atomic_load(&ring.deadlocks), 1);
            assert_int_equal(atomic_load(&ring.others), 0);
            assert_int_equal(stint_pool_destroy(one), 0);
            assert_int_equal(stint_pool_destroy(other), 0);
        }
    }
}

/* --- Knots -------------------------------------------------------------------------------------------------------- */

static int await_any_of_the_others(void *arg, void **value)
{
    const struct member *member = arg;
    struct ring *ring = member->ring;
    stint_future *others[LONGEST], *any;
    size_t count = 0;
    (void)value;
    for (unsigned i = 0; i < ring->length; i++) {
        if (i != member->index)
            others[count++] = await_pointer(&ring->futures[i]);
    }
    int error = stint_when_any(others, count, &any);
    if (error != 0)
        return error;
    error = stint_future_wait(any, NULL);
    atomic_fetch_add(error == EDEADLK ? &ring->deadlocks : &ring->others, error != 0);
    stint_future_release(any);
    return error;
}

/* Each could be ended by each other one. */
TEST(one_of_several_that_wait_for_any_of_the_others_is_told)
{
    for (unsigned length = 3; length <= LONGEST; length++) {
        stint_pool *pools[] = { make_pool(.workers = LONGEST), make_pool(.workers = LONGEST) };
        struct ring ring = { .length = length };
        for (unsigned i = 0; i < length; i++)
            atomic_store(&ring.futures[i], submit(pools[i % 2], await_any_of_the_others, member_of(&ring, i), NULL));
        end_ring(&ring);
        assert_int_equal(atomic_load(&ring.deadlocks), 1);
        assert_int_equal(atomic_load(&ring.others), 0);
        assert_int_equal(stint_pool_destroy(pools[0]), 0);
        assert_int_equal(stint_pool_destroy(pools[1]), 0);
    }
}

struct club {
    stint_group *group;
    stint_future *_Atomic first;
    atomic_uint waits;
};

static int await_idleness(void *arg, void **value)
{
    struct club *club = arg;
    stint_future *idle;
    (void)value;
    int error = stint_group_when_idle(club->group, &idle);
    atomic_fetch_add(&club->waits, 1);
    if (error == 0)
        error = stint_future_wait(idle, NULL);
    stint_future_release(idle);
    return error;
}

static int await_who_awaits_idleness(void *arg, void **value)
{
    struct club *club = arg;
    (void)value;
    atomic_fetch_add(&club->waits, 1);
    return stint_future_wait(await_pointer(&club->first), NULL);
}

/* Both have slept for long by then, and neither falls asleep again. */
TEST(a_circle_that_a_new_member_of_a_group_closes_is_found)
{
    stint_pool *pool = make_pool(.workers = 4);
    struct gate gate = { 0 };
    struct club club = { .first = NULL };
    assert_int_equal(stint_group_create(&club.group), 0);
    stint_future *member = submit(pool, gate_hold, &gate, NULL);
    assert_int_equal(stint_group_add(club.group, member), 0);
    atomic_store(&club.first, submit(pool, await_idleness, &club, NULL));
    stint_future *second = submit(pool, await_who_awaits_idleness, &club, NULL);
    while (atomic_load(&club.waits) < 2)
        gate_nap();
    nap_ms(50);
    assert_int_equal(stint_group_add(club.group, second), 0);
    while (!stint_future_is_ready(club.first) && !stint_future_is_ready(second))
        gate_nap();
    gate_open(&gate); /* if the second one was told, the first one still waits for this */
    take(member);
    stint_outcome outcomes[2]; /* the second one may still be on its way out of a wait for the first */
    assert_int_equal(stint_future_wait_for(club.first, 60000 * MS, &outcomes[0]), 0);
    outcomes[1] = take_in_time(second);
    stint_future_release(club.first);
    assert_true((outcomes[0].error == EDEADLK) != (outcomes[1].error == EDEADLK));
    assert_int_equal(stint_group_wait_for(club.group, STINT_FOREVER, NULL), 0);
    stint_group_release(club.group);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_circle_with_a_time_out_is_none)
{
    stint_pool *pool = make_pool(.workers = LONGEST);
    struct ring ring = { .length = LONGEST };
    ring.members[2].timeout_ns = 300 * MS;
    start_ring(&ring, (stint_pool *const[]){ pool, pool });
    end_ring(&ring);
    assert_int_equal(atomic_load(&ring.deadlocks), 0);
    assert_int_equal(atomic_load(&ring.others), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Compound futures --------------------------------------------------------------------------------------------- */

struct pair {
    bool any;
    struct gate gate;
    stint_future *_Atomic waiter; /* that waits for the other and for what the gate holds */
    stint_future *_Atomic other;  /* that waits for the waiter */
    stint_future *held;
};

static int await_the_waiter(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    return stint_future_wait(await_pointer(&pair->waiter), NULL);
}

static int await_both(void *arg, void **value)
{
    struct pair *pair = arg;
    stint_future *futures[2] = { await_pointer(&pair->other), pair->held };
    stint_future *both;
    (void)value;
    int error = pair->any ? stint_when_any(futures, 2, &both) : stint_when_all(futures, 2, &both);
    if (error != 0)
        return error;
    error = stint_future_wait(both, NULL);
    stint_future_release(both);
    return error;
}

static struct pair start_pair(stint_pool *pool, struct pair *pair)
{
    pair->held = submit(pool, gate_hold, &pair->gate, NULL);
    gate_await(&pair->gate, 1);
    atomic_store(&pair->other, submit(pool, await_the_waiter, pair, NULL));
    atomic_store(&pair->waiter, submit(pool, await_both, pair, NULL));
    nap_ms(100); /* time enough for a circle to be found */
    return *pair;
}

TEST(to_wait_for_all_of_which_one_is_a_circle_fails)
{
    stint_pool *pool = make_pool(.workers = 3);
    struct pair pair = { .any = false };
    start_pair(pool, &pair);
    stint_outcome waiter;
    stint_outcome other;
    /* Either may get the error: then the circle is gone, and the other waits for the gate only. */
    while (!stint_future_is_ready(pair.waiter) && !stint_future_is_ready(pair.other))
        gate_nap();
    gate_open(&pair.gate);
    assert_int_equal(stint_future_wait_for(pair.waiter, 60000 * MS, &waiter), 0);
    assert_int_equal(stint_future_wait_for(pair.other, 60000 * MS, &other), 0);
    assert_true((waiter.error == EDEADLK) != (other.error == EDEADLK));
    take_in_time(pair.held);
    stint_future_release(pair.waiter);
    stint_future_release(pair.other);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(to_wait_for_any_of_which_one_is_a_circle_ends_by_the_others)
{
    stint_pool *pool = make_pool(.workers = 3);
    struct pair pair = { .any = true };
    start_pair(pool, &pair);
    assert_false(stint_future_is_ready(pair.waiter));
    gate_open(&pair.gate);
    assert_ok(take_in_time(pair.other)); /* and only then the one that it waits for */
    assert_ok(take_in_time(pair.waiter));
    assert_ok(take_in_time(pair.held));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Subtasks ----------------------------------------------------------------------------------------------------- */

struct parted {
    atomic_uint begun; /* the stolen part */
    int found;         /* by it */
    atomic_uint ended;
    stint_future *_Atomic own;
    stint_future *_Atomic other; /* NULL: the part waits for its own task */
};

static int await_other_or_own(void *arg, void **value)
{
    struct parted *parted = arg;
    (void)value;
    atomic_store(&parted->begun, 1);
    stint_future *other = atomic_load(&parted->other);
    parted->found = stint_future_wait(other != NULL ? other : await_pointer(&parted->own), NULL);
    atomic_store(&parted->ended, 1);
    return parted->found;
}

static int fork_a_part(void *arg, void **value)
{
    struct parted *parted = arg;
    stint_subtask part;
    (void)value;
    stint_fork(&part, await_other_or_own, parted);
    have_stolen(&parted->begun);
    return stint_join(&part, NULL);
}

TEST(a_stolen_subtask_that_waits_for_its_own_task_fails)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct parted parted = { .found = 0 };
    atomic_store(&parted.own, submit(pool, fork_a_part, &parted, NULL));
    assert_int_equal(take_in_time(parted.own).error, EDEADLK);
    assert_int_equal(parted.found, EDEADLK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int wait_for_the_part(void *arg, void **value)
{
    struct parted *parted = arg;
    stint_subtask part;
    (void)value;
    stint_fork(&part, await_other_or_own, parted);
    have_stolen(&parted->begun);
    while (atomic_load(&parted->ended) == 0)
        gate_nap();
    return stint_join(&part, NULL);
}

/* So there is no circle of threads that sleep. */
TEST(a_stolen_subtask_that_waits_for_its_own_task_fails_while_that_goes_on)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct parted parted = { .found = 0 };
    atomic_store(&parted.own, submit(pool, wait_for_the_part, &parted, NULL));
    assert_int_equal(take_in_time(parted.own).error, EDEADLK);
    assert_int_equal(parted.found, EDEADLK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int await_own(void *arg, void **value)
{
    struct parted *parted = arg;
    (void)value;
    return stint_future_wait(await_pointer(&parted->own), NULL);
}

/* The task is in its join; the thief waits for a task that waits for this one. */
TEST(a_circle_that_leads_through_a_join_is_found)
{
    for (int round = 0; round < 5; round++) {
        stint_pool *pool = make_pool(.workers = 3);
        struct parted parted = { .found = 0 };
        atomic_store(&parted.other, submit(pool, await_own, &parted, NULL));
        atomic_store(&parted.own, submit(pool, fork_a_part, &parted, NULL));
        stint_outcome own;
        stint_outcome other;
        assert_int_equal(stint_future_wait_for(parted.own, 60000 * MS, &own), 0);
        assert_int_equal(stint_future_wait_for(parted.other, 60000 * MS, &other), 0);
        assert_true((own.error == EDEADLK) != (other.error == EDEADLK));
        stint_future_release(parted.own);
        stint_future_release(parted.other);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- Accounts ----------------------------------------------------------------------------------------------------- */

struct holders {
    stint_pool *pool;
    stint_account *outer_of_last;
    stint_account *account;
    uint64_t timeout_ns; /* of the first one's wait; 0: as long as it takes */
    bool all;            /* the second waits for all of some */
    atomic_uint begun;
};

static int submit_and_await_last(void *arg, void **value)
{
    struct holders *holders = arg;
    (void)value;
    atomic_store(&holders->begun, 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = holders->outer_of_last;
    stint_future *futures[2];
    stint_future *all;
    for (int i = 0; i < 2; i++) {
        int error = stint_submit(holders->pool, do_nothing, NULL, &options, &futures[i]);
        if (error != 0)
            return error;
    }
    int error = stint_when_all(futures, 2, &all);
    if (error == 0)
        error = stint_future_wait(holders->all ? all : futures[0], NULL);
    stint_future_release(all);
    stint_future_release(futures[0]);
    stint_future_release(futures[1]);
    return error;
}

/* It has the account's only slot, and waits for a task on another worker, which waits for the account. */
static int submit_and_await_second(void *arg, void **value)
{
    struct holders *holders = arg;
    stint_future *second;
    (void)value;
    int error = stint_submit(holders->pool, submit_and_await_last, holders, NULL, &second);
    if (error != 0)
        return error;
    while (atomic_load(&holders->begun) == 0)
        sched_yield();
    error = holders->timeout_ns == 0 ? stint_future_wait(second, NULL)
                                     : stint_future_wait_for(second, holders->timeout_ns, NULL);
    stint_future_release(second);
    return error;
}

TEST(who_waits_over_others_makes_way_in_its_account)
{
    static const struct {
        unsigned substitutes;
        uint64_t timeout_ns;
        bool all;
        bool beside; /* the accounts are siblings, and the accounts above them are full */
    } cases[] = {
        { 0, 0, false, false },          { STINT_NO_SUBSTITUTES, 0, false, false },
        { 0, 30000 * MS, false, false }, { 0, 0, true, false },
        { 0, 0, false, true },           { STINT_NO_SUBSTITUTES, 0, true, true },
        { 0, 30000 * MS, true, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
        struct holders holders = { .timeout_ns = cases[i].timeout_ns, .all = cases[i].all };
        stint_account *above;
        stint_account *beside;
        assert_int_equal(stint_account_create(NULL, &limits, &above), 0);
        assert_int_equal(stint_account_create(above, NULL, &holders.account), 0);
        assert_int_equal(stint_account_create(above, NULL, &beside), 0);
        holders.outer_of_last = cases[i].beside ? beside : holders.account;
        holders.pool = make_pool(.workers = 2, .substitutes = cases[i].substitutes);
        stint_options options = STINT_OPTIONS_INIT;
        options.account = holders.account;
        assert_ok(take_in_time(submit(holders.pool, submit_and_await_second, &holders, &options)));
        assert_int_equal(stint_pool_shutdown(holders.pool, STINT_SHUTDOWN_DRAIN, 60000 * MS), 0);
        assert_int_equal(stint_pool_destroy(holders.pool), 0);
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        assert_int_equal(stint_account_read(above, &usage), 0);
        assert_int_equal(usage.running, 0);
        stint_account_release(beside);
        stint_account_release(holders.account);
        stint_account_release(above);
    }
}

/* --- Many ways ---------------------------------------------------------------------------------------------------- */

#define LEVELS 60

static int await_it(void *arg, void **value)
{
    stint_future *_Atomic *pointer = arg;
    (void)value;
    return stint_future_wait(await_pointer(pointer), NULL);
}

/* Each level is all of the one before, twice: the ways through it are two to the power of its height. */
TEST(a_lattice_of_futures_is_looked_into_in_bounded_time)
{
    for (int i = 0; i < 2; i++) {
        stint_pool *pool = make_pool(.workers = 1, .substitutes = i == 0 ? 0 : STINT_NO_SUBSTITUTES);
        stint_pool *other = make_pool(.workers = 1);
        struct gate gate = { 0 };
        stint_future *top = submit(other, gate_hold, &gate, NULL);
        for (int level = 0; level < LEVELS; level++) {
            stint_future *twice[2] = { top, top };
            assert_int_equal(stint_when_all(twice, 2, &top), 0);
            stint_future_release(twice[0]);
        }
        stint_future *_Atomic pointer = top;
        stint_future *waiter = submit(pool, await_it, &pointer, NULL);
        gate_await(&gate, 1);
        nap_ms(50);
        gate_open(&gate);
        assert_ok(take_in_time(waiter));
        stint_future_release(top);
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_int_equal(stint_pool_destroy(other), 0);
    }
}

TEST_MAIN()
