/* SPDX-License-Identifier: MIT
 *
 * Accounts whose tasks run on a pool: what the ledger says while they run and at the end, and whom a spent account
 * stops. */
#include "pools.h"

#define WORKERS 2
#define GRANT (256 * KIB)
#define LARGEST (300 * KIB)
#define WINDOW 256 /* tasks that wait or run at once */

/* --- The ledger while tasks run
 * ------------------------------------------------------------------------------------ */

/* The truth, as the tasks count it themselves: the account's charge lies between the two. */
static _Atomic uint64_t charged_at_least;
static _Atomic uint64_t charged_at_most;

struct charging {
    uint64_t seed;
    bool for_ever;
    uint64_t pending; /* counted at most, and not at least */
};

static void count_pending_off(void *arg)
{
    const struct charging *charging = arg;
    atomic_fetch_sub(&charged_at_most, charging->pending);
}

static void allocate_counted(struct charging *charging, size_t size)
{
    uint64_t charge = (size + 15) / 16 * 16;
    charging->pending = charge;
    atomic_fetch_add(&charged_at_most, charge);
    void *block = keep(stint_malloc(size));
    charging->pending = 0;
    atomic_fetch_add(&charged_at_least, charge);
    stint_free(block);
}

static int charge_at_random(void *arg, void **value)
{
    struct charging charging = *(struct charging *)arg;
    (void)value;
    stint_guard guard;
    stint_guard_push(&guard, count_pending_off, &charging);
    size_t count = 1 + random_below(&charging.seed, 20);
    for (size_t i = 0; i < count || charging.for_ever; i++) {
        bool large = random_below(&charging.seed, 100) == 0;
        allocate_counted(&charging, 1 + random_below(&charging.seed, large ? LARGEST : 3000));
    }
    stint_guard_pop(&guard, false);
    return 0;
}

struct reader {
    stint_account *account;
    atomic_bool done;
    uint64_t readings;
    const char *wrong;
};

static void *read_the_ledger(void *arg)
{
    struct reader *reader = arg;
    while (!atomic_load(&reader->done) && reader->wrong == NULL) {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        uint64_t least = atomic_load(&charged_at_least);
        stint_account_read(reader->account, &usage);
        uint64_t most = atomic_load(&charged_at_most);
        if (usage.allocated < least)
            reader->wrong = "less than the tasks have been charged";
        /* A block that is refused has been counted off before what was drawn for it is given back. */
        if (usage.allocated > most + WORKERS * (GRANT + LARGEST))
            reader->wrong = "more than they have been charged and granted";
        if (usage.running > WORKERS || usage.started > repeats(200000))
            reader->wrong = "more tasks than there are";
        if (usage.memory > 64 * MIB)
            reader->wrong = "more memory than there can be";
        reader->readings++;
        usleep(20);
    }
    return NULL;
}

TEST(the_ledger_is_right_while_tasks_run_and_are_cancelled_and_exact_at_the_end)
{
    static stint_future *futures[WINDOW];
    static struct charging work[WINDOW];
    stint_account *root = make_account(NULL);
    stint_account *account = make_account(root);
    struct reader reader = { .account = account };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_the_ledger, &reader), 0);

    stint_pool *pool = make_pool(.workers = WORKERS);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    uint64_t random = 1;
    uint64_t charged = 0;
    uint64_t ok = 0;
    const size_t tasks = repeats(200000);
    for (size_t i = 0; i < tasks + WINDOW; i++) {
        size_t at = i % WINDOW;
        if (i >= WINDOW) {
            stint_outcome outcome;
            if (work[at].for_ever)
                stint_future_cancel(futures[at]);
            assert_int_equal(stint_future_wait(futures[at], &outcome), 0);
            if (!work[at].for_ever && outcome.status != STINT_CANCELLED)
                assert_ok(outcome);
            ok += outcome.status == STINT_OK;
            charged += outcome.usage.allocated;
            stint_future_release(futures[at]);
        }
        if (i >= tasks)
            continue;
        work[at] = (struct charging){ .seed = i, .for_ever = random_below(&random, 256) == 0 };
        assert_int_equal(stint_submit(pool, charge_at_random, &work[at], &options, &futures[at]), 0);
        /* One that waits in the queue, runs, or has ended. */
        if (random_below(&random, 4) == 0)
            stint_future_cancel(futures[i < WINDOW ? 0 : random_below(&random, WINDOW)]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    atomic_store(&reader.done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);

    assert_null(reader.wrong);
    assert_true(reader.readings > 100);
    assert_in_range(ok, tasks / 3, tasks - tasks / 16);
    const stint_account *accounts[] = { account, root };
    for (int i = 0; i < 2; i++) {
        stint_account_usage usage = usage_of(accounts[i]);
        assert_int_equal(usage.allocated, charged);
        assert_int_equal(usage.memory, 0);
        assert_int_equal(usage.running, 0);
        assert_true(usage.started <= tasks && usage.started >= ok);
    }
    assert_int_equal(atomic_load(&charged_at_least), charged);
    assert_int_equal(atomic_load(&charged_at_most), charged);
    stint_account_release(account);
    stint_account_release(root);
}

/* --- Whom a spent account stops
 * ------------------------------------------------------------------------------------ */

#define TASK_BYTES (100 * KIB)

static int allocate_and_free(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i < TASK_BYTES / KIB; i++)
        stint_free(keep(stint_malloc(KIB)));
    return 0;
}

struct tenant {
    stint_account *account;
    size_t ok;
    size_t spent; /* ended for their account */
    size_t other;
};

/* This many tasks of each tenant, in turns. */
static void run_tenants(struct tenant *tenants, size_t count, size_t tasks)
{
    stint_future **futures = calloc(count * tasks, sizeof *futures);
    assert_non_null(futures);
    stint_pool *pool = make_pool(.workers = WORKERS);
    for (size_t i = 0; i < count * tasks; i++) {
        stint_options options = { .size = sizeof(stint_options), .account = tenants[i % count].account };
        assert_int_equal(stint_submit(pool, allocate_and_free, NULL, &options, &futures[i]), 0);
    }
    for (size_t i = 0; i < count * tasks; i++) {
        struct tenant *tenant = &tenants[i % count];
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        tenant->ok += outcome.status == STINT_OK;
        tenant->spent += outcome.status == STINT_ERROR && outcome.reason == STINT_REASON_ACCOUNT;
        stint_future_release(futures[i]);
    }
    for (size_t i = 0; i < count; i++)
        tenants[i].other = tasks - tenants[i].ok - tenants[i].spent;
    assert_int_equal(stint_pool_destroy(pool), 0);
    free(futures);
}

static void assert_all_ok(const struct tenant *tenant, size_t tasks)
{
    assert_int_equal(tenant->ok, tasks);
    assert_int_equal(usage_of(tenant->account).allocated, tasks * TASK_BYTES);
}

/* Room for a number of tasks: no more end Ok. Fewer end Ok only by the grant that a task holds while all the others
 * come and are refused, and by the charges of those. */
static void assert_spent(const struct tenant *tenant, size_t room)
{
    assert_in_range(tenant->ok, room - WORKERS - WORKERS * GRANT / TASK_BYTES, room);
    assert_true(tenant->spent > 0);
    assert_int_equal(tenant->other, 0);
}

TEST(a_spent_account_stops_its_tenant_s_tasks_and_nobody_else_s)
{
    struct tenant tenants[4] = {
        { .account = make_account(NULL) },
        { .account = make_account(NULL, .allocation = 10 * TASK_BYTES) },
        { .account = make_account(NULL, .allocation = 50 * TASK_BYTES) },
        { .account = make_account(NULL, .allocation = GIB) },
    };
    run_tenants(tenants, 4, 100);
    assert_all_ok(&tenants[0], 100);
    assert_spent(&tenants[1], 10);
    assert_spent(&tenants[2], 50);
    assert_all_ok(&tenants[3], 100);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(usage_of(tenants[i].account).running, 0);
        stint_account_release(tenants[i].account);
    }
}

/* A tenant has two requests: one is spent by itself, and then the tenant is, for both. Another tenant has one. */
TEST(a_request_s_account_stops_that_request_and_its_tenant_s_all_of_them)
{
    stint_account *all = make_account(NULL);
    stint_account *tenant = make_account(all, .allocation = 60 * TASK_BYTES);
    stint_account *other = make_account(all);
    struct tenant requests[3] = {
        { .account = make_account(tenant, .allocation = 10 * TASK_BYTES) },
        { .account = make_account(tenant) },
        { .account = make_account(other) },
    };
    run_tenants(requests, 3, 40);
    assert_spent(&requests[0], 10);
    assert_int_equal(requests[1].ok, 40);
    assert_all_ok(&requests[2], 40);

    size_t ok_before = requests[0].ok;
    for (int i = 0; i < 3; i++)
        requests[i] = (struct tenant){ .account = requests[i].account };
    run_tenants(requests, 3, 40);
    assert_true(ok_before + requests[0].ok <= 10);
    assert_true(requests[0].spent >= 30 && requests[0].other == 0);
    assert_true(requests[1].spent >= 20 && requests[1].other == 0);
    assert_true(usage_of(tenant).allocated <= 60 * TASK_BYTES);
    assert_int_equal(requests[2].ok, 40);
    assert_int_equal(usage_of(other).allocated, 80 * TASK_BYTES);
    assert_int_equal(usage_of(all).allocated, usage_of(tenant).allocated + usage_of(other).allocated);
    for (int i = 0; i < 3; i++)
        stint_account_release(requests[i].account);
    stint_account_release(tenant);
    stint_account_release(other);
    stint_account_release(all);
}

TEST_MAIN()
