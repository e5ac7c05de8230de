/* SPDX-License-Identifier: MIT
 *
 * Turns by time on workers: an account with endless work gets its share of the time for which the pool's tasks occupy
 * workers, by its weight, whatever the others do. The test compares shares of that time, so a busy machine does not
 * matter. */
#include <math.h>

#include "pools.h"

#define LOOP_NS MS
#define GOOD_NS (200 * UINT64_C(1000))
#define PIECE_NS (10 * MS)
#define TOLERANCE 0.25 /* a task that the system interrupts for others is charged for that */
#define PARTIES_MAX 66

static stint_pool *pool;

/* A tenant that always has this number of tasks waiting or running. */
struct party {
    stint_account *account; /* NULL: plain tasks */
    stint_fn *fn;
    uint64_t cpu_ns;
    unsigned outstanding;
    _Atomic uint64_t used;
    _Atomic uint64_t tasks;
};

static struct party parties[PARTIES_MAX];
static unsigned party_count;
static _Atomic uint64_t used_in_all;
static uint64_t enough;
static atomic_uint outstanding;
static atomic_bool measuring;
static atomic_bool failed;

static void submit_one(struct party *party);

static void go_on(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct party *party = arg;
    (void)future;
    if (atomic_load(&measuring)) {
        atomic_fetch_add(&party->used, outcome->usage.wall_ns);
        atomic_fetch_add(&party->tasks, 1);
        if (atomic_fetch_add(&used_in_all, outcome->usage.wall_ns) >= enough)
            atomic_store(&measuring, false);
        submit_one(party);
    }
    atomic_fetch_sub(&outstanding, 1);
}

static void submit_one(struct party *party)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = party->account;
    options.budget.cpu_ns = party->cpu_ns;
    stint_future *future;
    atomic_fetch_add(&outstanding, 1);
    int error = stint_submit(pool, party->fn, NULL, &options, &future);
    if (error != 0) {
        atomic_fetch_sub(&outstanding, 1);
        /* Another thread may have ended it all since this one looked. */
        if (error != ESHUTDOWN || atomic_load(&measuring))
            atomic_store(&failed, true);
        atomic_store(&measuring, false);
        return;
    }
    if (stint_future_then(future, go_on, party) != 0)
        atomic_store(&failed, true);
    stint_future_release(future);
}

static void use_processor(uint64_t ns)
{
    uint64_t end = thread_time_ns() + ns;
    while (thread_time_ns() < end)
        ;
}

static int be_good(void *arg, void **value)
{
    (void)arg;
    (void)value;
    use_processor(GOOD_NS);
    return 0;
}

/* And says nothing of it. */
static int sleep_on_its_worker(void *arg, void **value)
{
    (void)arg;
    (void)value;
    usleep(5000);
    return 0;
}

static int sleep_aside(void *arg, void **value)
{
    stint_blocking_begin();
    int error = sleep_on_its_worker(arg, value);
    stint_blocking_end();
    return error;
}

static int sleep_aside_and_compute(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_blocking_begin();
    usleep(2000);
    stint_blocking_end();
    use_processor(PIECE_NS);
    return 0;
}

static struct party *add_party(stint_fn *fn, unsigned weight, unsigned count)
{
    struct party *party = &parties[party_count++];
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .weight = weight };
    *party = (struct party){ .fn = fn, .outstanding = count };
    party->cpu_ns = fn == check_for_ever ? LOOP_NS : UINT64_MAX;
    assert_int_equal(stint_account_create(NULL, &limits, &party->account), 0);
    return party;
}

static struct party *add_plain_party(stint_fn *fn, unsigned count)
{
    struct party *party = add_party(fn, 0, count);
    stint_account_release(party->account);
    party->account = NULL;
    return party;
}

static int begin(void **state)
{
    (void)state;
    party_count = 0;
    return 0;
}

/* Until all together have used this much; all tasks are submitted before any begins. */
static void compete(unsigned workers, uint64_t ns)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = workers };
    struct gate gate = { 0 };
    stint_future *holders[4];
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    for (unsigned i = 0; i < workers; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holders[i]), 0);
    gate_await(&gate, workers);
    enough = ns;
    atomic_store(&used_in_all, 0);
    atomic_store(&failed, false);
    atomic_store(&measuring, true);
    for (unsigned k = 0; k < 64; k++) {
        for (unsigned i = 0; i < party_count; i++) {
            if (k < parties[i].outstanding)
                submit_one(&parties[i]);
        }
    }
    gate_open(&gate);
    for (unsigned i = 0; i < workers; i++) {
        assert_int_equal(stint_future_wait(holders[i], NULL), 0);
        stint_future_release(holders[i]);
    }
    while (atomic_load(&measuring))
        gate_nap();
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    while (atomic_load(&outstanding) > 0)
        gate_nap();
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_false(atomic_load(&failed));
    for (unsigned i = 0; i < party_count; i++)
        stint_account_release(parties[i].account);
}

static void assert_share(const struct party *party, double wanted)
{
    double share = (double)atomic_load(&party->used) / (double)atomic_load(&used_in_all);
    if (fabs(share / wanted - 1) > TOLERANCE)
        fail_msg("a share of %.4f where %.4f is due, %lu tasks", share, wanted, (unsigned long)party->tasks);
}

static void compete_with_loops(unsigned loops, unsigned each, unsigned workers, uint64_t ns)
{
    begin(NULL);
    const struct party *good = add_party(be_good, 0, 8);
    for (unsigned i = 0; i < loops; i++)
        add_party(check_for_ever, 0, each);
    compete(workers, ns);
    assert_share(good, 1.0 / (loops + 1));
}

TEST(a_good_account_gets_half_beside_one_of_endless_loops)
{
    compete_with_loops(1, 8, 1, 400 * MS);
    compete_with_loops(1, 8, 2, 400 * MS);
}

TEST(a_good_account_gets_a_ninth_beside_eight_of_endless_loops)
{
    compete_with_loops(8, 4, 1, 1000 * MS);
    compete_with_loops(8, 4, 2, 1000 * MS);
}

TEST(accounts_that_keep_one_loop_each_get_no_more)
{
    compete_with_loops(8, 1, 2, 1000 * MS);
}

TEST(a_good_account_gets_a_65th_beside_64_of_endless_loops)
{
    compete_with_loops(64, 4, 2, 5000 * MS);
}

TEST_WITH(plain_tasks_are_one_class, begin, NULL)
{
    const struct party *plain = add_plain_party(be_good, 8);
    for (unsigned i = 0; i < 3; i++)
        add_party(check_for_ever, 0, 4);
    compete(2, 1000 * MS);
    assert_share(plain, 0.25);

    begin(NULL);
    const struct party *good = add_party(be_good, 0, 8);
    add_plain_party(check_for_ever, 64);
    compete(2, 500 * MS);
    assert_share(good, 0.5);
}

TEST_WITH(shares_are_as_weights, begin, NULL)
{
    const struct party *light = add_party(be_good, 50, 8);
    const struct party *usual = add_party(check_for_ever, 0, 8);
    const struct party *heavy = add_party(be_good, 250, 8);
    compete(2, 1500 * MS);
    assert_share(light, 0.125);
    assert_share(usual, 0.25);
    assert_share(heavy, 0.625);
}

TEST(a_good_account_gets_half_beside_one_whose_tasks_sleep_on_their_workers)
{
    begin(NULL);
    const struct party *good = add_party(be_good, 0, 16);
    add_party(sleep_on_its_worker, 0, 16);
    compete(2, 1000 * MS);
    assert_share(good, 0.5);
}

/* Nearly all of the time is theirs, and none of it is charged to them. */
TEST(tasks_that_say_that_they_sleep_are_not_charged_for_it)
{
    begin(NULL);
    const struct party *good = add_party(be_good, 0, 8);
    const struct party *sleepy = add_party(sleep_aside, 0, 16);
    compete(2, 4000 * MS);
    assert_true(atomic_load(&sleepy->tasks) > 400); /* of 800 that it would be alone */
    assert_true(atomic_load(&good->tasks) > 100);
}

/* If they began for nothing all would wake at once, and each be charged for the time that the others take. */
TEST(tasks_that_sleep_before_they_compute_get_the_share_of_their_account)
{
    begin(NULL);
    const struct party *good = add_party(be_good, 0, 8);
    const struct party *sleepy = add_party(sleep_aside_and_compute, 0, 48);
    compete(1, 4000 * MS);
    uint64_t used = atomic_load(&sleepy->tasks) * PIECE_NS, used_by_good = atomic_load(&good->tasks) * GOOD_NS;
    assert_true(used > (used + used_by_good) / 3);
}

/* --- What is charged while tasks sleep, are overdue, or wait for others. On one place, which a gate holds until all
 * tasks are there. --- */

#define SLEEPERS 64
#define LONG_NS (40 * MS)
#define LATER (4 * LONG_NS / MS) /* of tasks that take one each */

static stint_account *good, *other;
static stint_future *futures[LATER * 2 + SLEEPERS];
static size_t count;
static struct gate gate;
static atomic_bool over;

static void begin_behind_gate(stint_pool_options options)
{
    options.workers = 1;
    options.substitutes = SLEEPERS;
    gate = (struct gate){ 0 };
    count = 0;
    atomic_store(&over, false);
    assert_int_equal(stint_account_create(NULL, NULL, &good), 0);
    assert_int_equal(stint_account_create(NULL, NULL, &other), 0);
    pool = make_pool_of(&options);
    futures[count++] = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
}

static void add(unsigned tasks, stint_fn *fn, void *arg, stint_account *account)
{
    for (unsigned i = 0; i < tasks; i++)
        futures[count++] = submit_for(pool, fn, arg, account);
}

/* The last one first: to wake the test could cost another task more than its computing. */
static void run_all(void)
{
    gate_open(&gate);
    while (count > 0)
        assert_int_equal(take_in_time(futures[--count]).status, STINT_OK);
}

static void end_pool(void)
{
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(good);
    stint_account_release(other);
}

static uint64_t compute_for(uint64_t ns)
{
    uint64_t begin = now_ns(), now;
    while ((now = now_ns()) - begin < ns)
        ;
    return now - begin;
}

static int compute_long(void *used, void **value)
{
    (void)value;
    *(uint64_t *)used = compute_for(LONG_NS);
    return 0;
}

static _Atomic uint64_t used_by_sleepers;
static uint64_t used_before; /* when the good account's next task began */

static int compute_and_sleep_aside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_fetch_add(&used_by_sleepers, compute_for(4 * MS));
    stint_blocking_begin();
    while (!atomic_load(&over))
        gate_nap();
    stint_blocking_end();
    return 0;
}

static int look_at_sleepers(void *arg, void **value)
{
    (void)arg;
    (void)value;
    used_before = atomic_load(&used_by_sleepers);
    atomic_store(&over, true);
    return 0;
}

/* None of them ends before the good one has had its turn, so nothing can be put right at an end. */
TEST(tasks_that_sleep_are_charged_what_they_used_before)
{
    uint64_t used_by_good = 0;
    begin_behind_gate((stint_pool_options)STINT_POOL_OPTIONS_INIT);
    add(1, compute_long, &used_by_good, good);
    add(SLEEPERS, compute_and_sleep_aside, NULL, other);
    add(1, look_at_sleepers, NULL, good);
    run_all();
    /* As much is their share, and one task more; the rest is for a busy machine. */
    assert_true(used_before < used_by_good * 2);
    end_pool();
}

static atomic_uint begun_later;
static atomic_uint ended;
static unsigned begun_between; /* of the tasks that compute later, from a task's submission to its beginning */
static stint_future *of_good;

static int compute_later(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_fetch_add(&begun_later, 1);
    compute_for(MS);
    return 0;
}

static int count_those_between(void *arg, void **value)
{
    (void)arg;
    (void)value;
    begun_between = atomic_load(&begun_later) - begun_between;
    return 0;
}

/* By a task, on the only place: so nothing begins between the two lines. */
static void submit_one_that_counts(stint_account *account)
{
    begun_between = atomic_load(&begun_later);
    of_good = submit_for(pool, count_those_between, NULL, account);
}

static unsigned take_count(void)
{
    assert_int_equal(take_in_time(of_good).status, STINT_OK);
    return begun_between;
}

/* The first one, whose worker takes what comes next, is the last to end. */
static int sleep_aside_at_once(void *is_first, void **value)
{
    (void)value;
    stint_blocking_begin();
    while (!atomic_load(&over) || (is_first != NULL && atomic_load(&ended) < SLEEPERS - 1))
        gate_nap();
    if (is_first != NULL)
        nanosleep(&(struct timespec){ .tv_nsec = 20 * MS }, NULL); /* the others have told what they have used */
    stint_blocking_end();
    atomic_fetch_add(&ended, 1);
    return 0;
}

/* The good account has had nothing to do until now. */
static int end_others(void *how_many, void **value)
{
    (void)value;
    submit_one_that_counts(good);
    atomic_store(&over, true);
    while (atomic_load(&ended) < *(unsigned *)how_many)
        gate_nap();
    return 0;
}

/* Their account always has more that wait, so that it keeps its time. */
TEST(tasks_that_sleep_save_nothing_up_of_what_they_did_not_use)
{
    unsigned sleepers = SLEEPERS;
    uint64_t used = 0;
    begin_behind_gate((stint_pool_options)STINT_POOL_OPTIONS_INIT);
    atomic_store(&ended, 0);
    add(1, compute_long, &used, other); /* as long the others are taken to be */
    add(1, sleep_aside_at_once, other, other);
    add(SLEEPERS - 1, sleep_aside_at_once, NULL, other);
    add(1, end_others, &sleepers, other);
    add(LATER, compute_later, NULL, other);
    run_all();
    assert_in_range(take_count(), 0, LONG_NS / MS);
    end_pool();
}

static int be_overdue(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    while (!atomic_load(&over))
        gate_nap();
    atomic_fetch_add(&ended, 1);
    stint_unmask();
    return 0;
}

/* Each is replaced as soon as it is overdue, and then the next one begins. */
TEST(tasks_that_are_overdue_save_nothing_up_of_what_they_did_not_use)
{
    unsigned overdue = 8;
    uint64_t used = 0;
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    stint_future *stopped[8];
    pool_options.overdue_ns = MS;
    begin_behind_gate(pool_options);
    atomic_store(&ended, 0);
    add(1, compute_long, &used, other);
    for (unsigned i = 0; i < overdue; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.account = other;
        options.budget.run_ns = MS;
        stopped[i] = submit(pool, be_overdue, NULL, &options);
    }
    add(1, end_others, &overdue, other);
    add(LATER, compute_later, NULL, other);
    run_all();
    for (unsigned i = 0; i < overdue; i++)
        assert_int_not_equal(take_in_time(stopped[i]).status, STINT_OK);
    assert_in_range(take_count(), 0, LONG_NS / MS + 10);
    end_pool();
}

static int compute_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static void wait_for_one_of_good(void)
{
    stint_future *awaited = submit_for(pool, compute_nothing, NULL, good);
    assert_int_equal(take(awaited).status, STINT_OK);
}

static int wait_sleep_and_wait(void *plain, void **value)
{
    (void)plain;
    (void)value;
    wait_for_one_of_good();
    stint_blocking_begin();
    nanosleep(&(struct timespec){ .tv_nsec = LONG_NS }, NULL);
    stint_blocking_end();
    compute_for(LONG_NS);
    wait_for_one_of_good();
    submit_one_that_counts(good);
    return 0;
}

TEST(what_a_task_does_between_two_waits_is_not_charged_to_those_it_waits_for)
{
    begin_behind_gate((stint_pool_options)STINT_POOL_OPTIONS_INIT);
    add(1, wait_sleep_and_wait, NULL, NULL);
    add(LATER, compute_later, NULL, other);
    run_all();
    assert_in_range(take_count(), 0, LONG_NS / MS / 4);
    end_pool();
}

static void set_weight(unsigned weight)
{
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.weight = weight;
    assert_int_equal(stint_account_set_limits(good, &limits), 0);
}

static int raise_weight(void *arg, void **value)
{
    (void)arg;
    (void)value;
    set_weight(10000);
    submit_one_that_counts(good);
    return 0;
}

/* It was charged forty milliseconds by the old weight, and has used nothing. */
TEST(what_a_task_is_charged_is_given_back_by_the_weight_it_was_charged_by)
{
    uint64_t used = 0;
    begin_behind_gate((stint_pool_options)STINT_POOL_OPTIONS_INIT);
    stint_future *first = submit_for(pool, compute_long, &used, good);
    add(1, raise_weight, NULL, good);
    add(LATER, compute_later, NULL, other);
    gate_open(&gate);
    assert_int_equal(take_in_time(first).status, STINT_OK);
    set_weight(1); /* the other account has its turns now */
    run_all();
    assert_in_range(take_count(), 0, LONG_NS / MS / 2);
    end_pool();
}

TEST_MAIN()
