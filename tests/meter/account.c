/* SPDX-License-Identifier: MIT
 *
 * Accounts: ledgers that several tasks charge. */
#include "support.h"

#include <stdatomic.h>

#define THREADS 2
#define GRANT (256 * KIB)

static void assert_at_rest(const stint_account *account, uint64_t allocated, uint64_t started)
{
    stint_account_usage usage = usage_of(account);
    assert_int_equal(usage.allocated, allocated);
    assert_int_equal(usage.memory, 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.started, started);
}

static int allocate_and_free(void *bytes, void **value)
{
    (void)value;
    for (size_t left = *(size_t *)bytes; left >= 1000; left -= 1000)
        stint_free(keep(stint_malloc(1000)));
    return 0;
}

static int hold(void *bytes, void **value)
{
    (void)value;
    for (size_t left = *(size_t *)bytes; left >= 1000; left -= 1000)
        keep(stint_malloc(1000));
    return 0;
}

TEST(the_ledger_is_what_the_tasks_were_charged)
{
    stint_account *account = make_account(NULL);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    uint64_t charged = 0;
    for (size_t bytes = 0; bytes < 3 * MIB; bytes += 100003)
        charged += run_task(allocate_and_free, &bytes, &options).usage.allocated;
    assert_at_rest(account, charged, 32);
    stint_account_release(account);
}

struct asking {
    stint_account *account;
    uint64_t drawn, reserved;
};

static int ask_and_read(void *arg, void **value)
{
    struct asking *asking = arg;
    (void)value;
    keep(stint_malloc((size_t)1 << 40));
    asking->drawn = usage_of(asking->account).allocated;
    asking->reserved = usage_of(asking->account).memory;
    return 0;
}

TEST(what_a_task_is_refused_is_not_its_account_s)
{
    stint_account *account = make_account(NULL);
    stint_options options = {
        .size = sizeof(stint_options), .account = account, .on_interrupt = STINT_FAIL, .budget.memory = MIB
    };
    struct asking asking = { .account = account, .drawn = UINT64_MAX };
    assert_int_equal(run_task(ask_and_read, &asking, &options).reason, STINT_REASON_MEMORY_LIMIT);
    assert_true(asking.drawn <= GRANT);
    assert_at_rest(account, 0, 1);
    options.budget = (stint_budget){ .allocation = MIB };
    assert_limit_passed(run_task(ask_and_read, &asking, &options));
    assert_true(asking.drawn <= GRANT);
    assert_true(asking.reserved <= MIB);
    assert_at_rest(account, 0, 2);
    stint_account_release(account);
}

TEST(a_spent_account_stops_its_tasks_and_no_others)
{
    stint_account *poor = make_account(NULL, .allocation = MIB);
    stint_account *rich = make_account(NULL);
    size_t bytes = 2 * MIB;
    stint_options options = { .size = sizeof(stint_options), .account = poor };
    stint_outcome outcome = run_task(allocate_and_free, &bytes, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    assert_true(outcome.usage.allocated <= MIB && outcome.usage.allocated > MIB - 1008);
    assert_outcome(run_task(allocate_and_free, &bytes, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    options.account = rich;
    assert_ok(run_task(allocate_and_free, &bytes, &options));
    assert_true(usage_of(poor).allocated <= MIB);
    stint_account_release(poor);
    stint_account_release(rich);
}

TEST(what_a_child_is_charged_its_parent_is_charged_too)
{
    stint_account *parent = make_account(NULL, .allocation = 2 * MIB);
    stint_account *first = make_account(parent);
    stint_account *second = make_account(parent);
    size_t bytes = MIB;
    stint_options options = { .size = sizeof(stint_options), .account = first };
    uint64_t charged = run_task(allocate_and_free, &bytes, &options).usage.allocated;
    assert_at_rest(first, charged, 1);
    assert_at_rest(parent, charged, 1);
    /* The parent's limit stops a child that has none. */
    bytes = 4 * MIB;
    options.account = second;
    stint_outcome outcome = run_task(allocate_and_free, &bytes, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    assert_at_rest(second, outcome.usage.allocated, 1);
    assert_at_rest(parent, charged + outcome.usage.allocated, 2);
    assert_true(charged + outcome.usage.allocated <= 2 * MIB);
    stint_account_release(parent); /* kept alive by its children */
    stint_account_release(first);
    stint_account_release(second);
}

/* Were its memory another account's by then, that one would be charged. */
TEST(an_account_that_was_released_is_there_while_it_has_a_child)
{
    enum { OTHERS = 2000 };
    static stint_account *others[OTHERS];
    stint_account *parent = make_account(NULL);
    stint_account *child = make_account(parent);
    size_t bytes = 10000;
    stint_account_release(parent);
    for (int i = 0; i < OTHERS; i++)
        others[i] = make_account(NULL);
    stint_options options = { .size = sizeof(stint_options), .account = child };
    assert_ok(run_task(allocate_and_free, &bytes, &options));
    for (int i = 0; i < OTHERS; i++) {
        assert_at_rest(others[i], 0, 0);
        stint_account_release(others[i]);
    }
    stint_account_release(child);
}

static int allocate_once(void *bytes, void **value)
{
    (void)value;
    return keep(stint_malloc(*(size_t *)bytes)) != NULL ? 0 : ENOMEM;
}

TEST(an_account_can_be_used_to_the_last_byte)
{
    size_t bytes = 160016;
    stint_account *account = make_account(NULL, .allocation = bytes);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    assert_ok(run_task(allocate_once, &bytes, &options));
    assert_at_rest(account, bytes, 1);
    bytes = 1;
    assert_outcome(run_task(allocate_once, &bytes, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    stint_account_release(account);
}

TEST(nothing_is_refused_for_which_an_account_has_room_but_not_for_more)
{
    stint_account *account = make_account(NULL, .memory = 4 * MIB);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    size_t bytes = 4 * MIB - 256 * KIB;
    assert_ok(run_task(hold, &bytes, &options));
    assert_int_equal(usage_of(account).memory, 0);
    stint_account_release(account);
}

TEST(the_memory_limit_is_on_what_is_held)
{
    stint_account *account = make_account(NULL, .memory = 4 * MIB);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    size_t bytes = 40 * MIB;
    assert_ok(run_task(allocate_and_free, &bytes, &options));
    stint_outcome outcome = run_task(hold, &bytes, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    assert_true(outcome.usage.peak <= 4 * MIB + 64 * KIB);
    assert_true(outcome.usage.peak >= 3 * MIB);
    assert_int_equal(usage_of(account).memory, 0);
    bytes = 3 * MIB;
    assert_ok(run_task(hold, &bytes, &options));
    assert_int_equal(usage_of(account).memory, 0);
    stint_account_release(account);
}

static int run_another(void *options, void **value)
{
    (void)value;
    size_t bytes = 0;
    stint_outcome outcome;
    return stint_run(allocate_and_free, &bytes, options, &outcome);
}

static void *run_on_thread(void *options)
{
    return (void *)(intptr_t)run_another(options, NULL);
}

static int run_elsewhere(void *options, void **value)
{
    (void)value;
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, run_on_thread, options) != 0 || pthread_join(thread, &result) != 0)
        return EAGAIN;
    return (int)(intptr_t)result;
}

TEST(no_more_tasks_run_at_once_than_allowed)
{
    stint_account *account = make_account(NULL, .running = 1);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    assert_outcome(run_task(run_elsewhere, &options, &options), STINT_ERROR, STINT_REASON_FAILED, EBUSY);
    assert_ok(run_task(run_elsewhere, &options, NULL));
    assert_int_equal(usage_of(account).running, 0);
    assert_int_equal(usage_of(account).started, 2);
    stint_account_release(account);
}

static int read_while_running(void *account, void **value)
{
    (void)value;
    for (int i = 0; i < 100; i++)
        keep(stint_malloc(1000));
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    if (stint_account_read(account, &usage) != 0 || usage.running != 1)
        return EINVAL;
    return usage.allocated >= 100 * 1008 && usage.allocated <= 100 * 1008 + GRANT ? 0 : ERANGE;
}

TEST(the_ledger_can_be_read_while_a_task_runs)
{
    stint_account *account = make_account(NULL);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    assert_ok(run_task(read_while_running, account, &options));
    stint_account_release(account);
}

static int run_inner_with_account(void *inner_options, void **value)
{
    (void)value;
    size_t bytes = 100000;
    stint_outcome outcome;
    int error = stint_run(allocate_and_free, &bytes, inner_options, &outcome);
    keep(stint_malloc(16));
    return error != 0 || outcome.status != STINT_OK ? EIO : 0;
}

TEST(a_scope_inside_another_charges_both_accounts)
{
    stint_account *inner = make_account(NULL);
    stint_account *outer = make_account(NULL);
    stint_options inner_options = { .size = sizeof(stint_options), .account = inner };
    stint_options outer_options = { .size = sizeof(stint_options), .account = outer };
    stint_outcome outcome = run_task(run_inner_with_account, &inner_options, &outer_options);
    assert_ok(outcome);
    assert_at_rest(inner, 100 * 1008, 1);
    assert_at_rest(outer, 100 * 1008 + 16, 1);
    assert_int_equal(outcome.usage.allocated, 100 * 1008 + 16);
    stint_account_release(inner);
    stint_account_release(outer);
}

/* --- Several threads
 * ----------------------------------------------------------------------------------------------- */

struct tenant {
    stint_account *account;
    atomic_ullong charged;
    atomic_ullong started;
    atomic_bool wrong;
};

static int work_at_random(void *seed, void **value)
{
    (void)value;
    uint64_t random = *(uint64_t *)seed;
    void *blocks[16] = { NULL };
    size_t count = random_below(&random, 2000);
    for (size_t i = 0; i < count; i++) {
        void **block = &blocks[random_below(&random, 16)];
        stint_free(*block);
        *block = stint_malloc(random_below(&random, 3000));
    }
    return 0;
}

static void *run_many(void *argument)
{
    struct tenant *tenant = argument;
    uint64_t random = (uint64_t)(uintptr_t)&random;
    for (unsigned i = repeats(1000); i > 0; i--) {
        stint_options options = { .size = sizeof(stint_options), .account = tenant->account };
        if (random_below(&random, 3) == 0)
            options.budget.allocation = 1 + random_below(&random, MIB);
        uint64_t seed = random_next(&random);
        stint_outcome outcome;
        if (stint_run(work_at_random, &seed, &options, &outcome) != 0)
            atomic_store(&tenant->wrong, true);
        atomic_fetch_add(&tenant->charged, outcome.usage.allocated);
        atomic_fetch_add(&tenant->started, 1);
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        stint_account_read(tenant->account, &usage);
        if (usage.running > THREADS || usage.allocated > UINT64_MAX / 2 || usage.memory > UINT64_MAX / 2)
            atomic_store(&tenant->wrong, true);
    }
    return NULL;
}

static void charge_from_threads(size_t allocation)
{
    stint_account *root = make_account(NULL);
    struct tenant tenant = { .account = make_account(root, .allocation = allocation) };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &tenant), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(atomic_load(&tenant.wrong));
    assert_at_rest(tenant.account, atomic_load(&tenant.charged), atomic_load(&tenant.started));
    assert_at_rest(root, atomic_load(&tenant.charged), atomic_load(&tenant.started));
    if (allocation != 0)
        assert_true(usage_of(root).allocated <= allocation);
    stint_account_release(tenant.account);
    stint_account_release(root);
}

TEST(two_threads_leave_a_ledger_that_is_exact)
{
    charge_from_threads(0);
}

TEST(two_threads_never_pass_the_limit_of_their_account)
{
    charge_from_threads((size_t)1 << 30);
}

static int allocate_for_ever(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (;;)
        stint_free(keep(stint_malloc(100)));
    return 0;
}

TEST(cancelled_tasks_of_a_pool_leave_a_ledger_that_is_exact)
{
    enum { FUTURES = 500 };
    static stint_future *futures[FUTURES];
    stint_account *account = make_account(NULL);
    stint_options options = { .size = sizeof(stint_options), .account = account };
    stint_pool *pool;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    for (int i = 0; i < FUTURES; i++)
        assert_int_equal(stint_submit(pool, allocate_for_ever, NULL, &options, &futures[i]), 0);
    uint64_t charged = 0;
    for (int i = 0; i < FUTURES; i++) {
        stint_outcome outcome;
        stint_future_cancel(futures[i]);
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_int_equal(outcome.status, STINT_CANCELLED);
        charged += outcome.usage.allocated;
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(usage_of(account).allocated, charged);
    assert_int_equal(usage_of(account).running, 0);
    stint_account_release(account);
}

TEST(bad_arguments_are_refused)
{
    stint_account *account;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_create(NULL, NULL, NULL), EINVAL);
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    assert_int_equal(stint_account_read(NULL, &usage), EINVAL);
    assert_int_equal(stint_account_read(account, NULL), EINVAL);
    assert_null(stint_account_retain(NULL));
    stint_account_release(NULL);
    stint_account_release(account);
}

TEST(an_account_has_a_name)
{
    char given[] = "tenant";
    stint_account_limits limits = { .size = sizeof(stint_account_limits), .name = given };
    stint_account *named;
    assert_int_equal(stint_account_create(NULL, &limits, &named), 0);
    given[0] = '\0';
    assert_string_equal(stint_account_name(named), "tenant");
    stint_account *one = make_account(named);
    stint_account *other = make_account(named);
    assert_int_equal(strncmp(stint_account_name(one), "account ", 8), 0);
    assert_string_not_equal(stint_account_name(one), stint_account_name(other));
    stint_account_release(one);
    stint_account_release(other);
    stint_account_release(named);
}

/* --- Scopes inside of others -------------------------------------------------------------------------------------- */

struct nest {
    stint_account *outer;
    stint_account *inner;
    size_t bytes; /* that the inner one allocates */
    int error;    /* of the inner stint_run */
    stint_outcome outcome;
    stint_account_usage inside; /* of the outer account, in the inner scope */
};

static int allocate_inside(void *arg, void **value)
{
    (void)value;
    struct nest *nest = arg;
    for (size_t made = 0; made < nest->bytes; made += 1024) {
        if (keep(stint_malloc(1024)) == NULL)
            return ENOMEM;
    }
    nest->inside = (stint_account_usage)STINT_ACCOUNT_USAGE_INIT;
    return stint_account_read(nest->outer, &nest->inside);
}

static int open_inside(void *arg, void **value)
{
    (void)value;
    struct nest *nest = arg;
    const stint_options options = { .size = sizeof(stint_options), .account = nest->inner };
    nest->error = stint_run(allocate_inside, nest, &options, &nest->outcome);
    return 0;
}

static void run_nested(struct nest *nest)
{
    const stint_options options = { .size = sizeof(stint_options), .account = nest->outer };
    assert_ok(run_task(open_inside, nest, &options));
    assert_int_equal(nest->error, 0);
    assert_ok(nest->outcome);
    assert_int_equal(nest->inside.running, 1);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(nest->outer, &usage), 0);
    assert_int_equal(usage.allocated, nest->bytes);
    assert_int_equal(usage.memory, 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.started, 1);
}

TEST(a_scope_inside_one_of_its_account_is_charged_once)
{
    struct nest nest = { .bytes = 6 * MIB };
    const stint_account_limits limits = {
        .size = sizeof(stint_account_limits), .allocation = 10 * MIB, .memory = 10 * MIB, .running = 1
    };
    assert_int_equal(stint_account_create(NULL, &limits, &nest.outer), 0);
    nest.inner = nest.outer;
    run_nested(&nest);
    stint_account_release(nest.outer);
}

TEST(a_scope_inside_one_of_its_account_s_parent_charges_that_once)
{
    struct nest nest = { .bytes = 6 * MIB };
    stint_account *between;
    const stint_account_limits limits = {
        .size = sizeof(stint_account_limits), .allocation = 10 * MIB, .memory = 10 * MIB, .running = 1
    };
    assert_int_equal(stint_account_create(NULL, &limits, &nest.outer), 0);
    assert_int_equal(stint_account_create(nest.outer, &limits, &between), 0);
    assert_int_equal(stint_account_create(between, NULL, &nest.inner), 0);
    run_nested(&nest);
    stint_account *const below[] = { between, nest.inner };
    for (size_t i = 0; i < 2; i++) {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        assert_int_equal(stint_account_read(below[i], &usage), 0);
        assert_int_equal(usage.allocated, nest.bytes);
        assert_int_equal(usage.memory, 0);
        assert_int_equal(usage.running, 0);
        assert_int_equal(usage.started, 1);
    }
    stint_account_release(nest.inner);
    stint_account_release(between);
    stint_account_release(nest.outer);
}

TEST(a_scope_inside_one_of_an_account_below_is_charged_through_that)
{
    struct nest nest = { .bytes = 6 * MIB };
    const stint_account_limits limits = {
        .size = sizeof(stint_account_limits), .allocation = 10 * MIB, .memory = 10 * MIB, .running = 1
    };
    assert_int_equal(stint_account_create(NULL, &limits, &nest.inner), 0);
    assert_int_equal(stint_account_create(nest.inner, &limits, &nest.outer), 0);
    run_nested(&nest);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(nest.inner, &usage), 0);
    assert_int_equal(usage.allocated, nest.bytes);
    assert_int_equal(usage.running, 0);
    stint_account_release(nest.outer);
    stint_account_release(nest.inner);
}

TEST_MAIN()
