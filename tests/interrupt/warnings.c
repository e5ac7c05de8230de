/* SPDX-License-Identifier: MIT
 *
 * Warnings: a task, an account and the process get one warning each before they pass a limit, and go on. */
#include "../walls.h"

enum { TOLD_MAX = 64 };

/* All that has been told. */
static struct {
    pthread_mutex_t lock;
    unsigned count;
    stint_warning list[TOLD_MAX];
    char names[TOLD_MAX][STINT_NAME_SIZE];
} told = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note(const stint_warning *warning, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&told.lock);
    if (told.count < TOLD_MAX) {
        snprintf(told.names[told.count], STINT_NAME_SIZE, "%s", warning->name != NULL ? warning->name : "-");
        told.list[told.count++] = *warning;
    }
    pthread_mutex_unlock(&told.lock);
}

static unsigned count_told(void)
{
    pthread_mutex_lock(&told.lock);
    unsigned count = told.count;
    pthread_mutex_unlock(&told.lock);
    return count;
}

static void begin(void)
{
    pthread_mutex_lock(&told.lock);
    told.count = 0;
    pthread_mutex_unlock(&told.lock);
    assert_int_equal(stint_warnings_set(note, NULL), 0);
}

static void await_told(unsigned count)
{
    while (count_told() < count)
        gate_nap();
}

/* What is told after these has come by the time that a warning of its own is told. */
static void assert_told_only(unsigned count)
{
    struct timespec soon = { .tv_nsec = 20 * (long)MS };
    await_told(count);
    nanosleep(&soon, NULL);
    assert_int_equal(count_told(), count);
}

static void assert_told(unsigned number, stint_reason reason, const char *name, uint64_t limit, unsigned percent)
{
    const stint_warning *warning = &told.list[number];
    assert_string_equal(stint_reason_name(warning->reason), stint_reason_name(reason));
    assert_string_equal(told.names[number], name);
    assert_int_equal(warning->limit, limit);
    assert_true(warning->used >= limit / 100 * percent);
    assert_true(warning->used <= limit);
}

/* --- Tasks -------------------------------------------------------------------------------------------------------- */

#define CHUNK ((size_t)1000)

static int allocate(void *bytes, void **value)
{
    (void)value;
    for (size_t i = 0; i < *(size_t *)bytes / CHUNK; i++) {
        if (stint_malloc(CHUNK) == NULL)
            return ENOMEM;
    }
    return 0;
}

static int allocate_inside(void *bytes, void **value)
{
    stint_outcome outcome;
    (void)value;
    return stint_run(allocate, bytes, NULL, &outcome);
}

static stint_outcome run_with(stint_fn *fn, void *arg, stint_budget budget)
{
    const stint_options options = { .size = sizeof options, .budget = budget, .name = "job", .warn = 50 };
    return run_task(fn, arg, &options);
}

TEST(a_task_is_told_of_once_when_it_has_used_a_part_of_a_limit_of_bytes_and_goes_on)
{
    static stint_fn *const functions[] = { allocate, allocate_inside };
    for (unsigned i = 0; i < 2; i++) {
        size_t bytes = MIB - MIB / 4;
        begin();
        stint_outcome outcome = run_with(functions[i], &bytes, (stint_budget){ .allocation = MIB });
        assert_int_equal(outcome.status, STINT_OK);
        outcome = run_with(functions[i], &bytes, (stint_budget){ .memory = MIB });
        assert_int_equal(outcome.status, STINT_OK);
        assert_told_only(2);
        assert_told(0, STINT_REASON_ALLOCATION_LIMIT, "job", MIB, 50);
        assert_told(1, STINT_REASON_MEMORY_LIMIT, "job", MIB, 50);
        assert_true(told.list[0].used < MIB / 2 + 2 * CHUNK);
    }
}

TEST(a_small_limit_is_warned_of_too)
{
    size_t bytes = 6 * CHUNK;
    begin();
    run_with(allocate, &bytes, (stint_budget){ .allocation = 10 * CHUNK });
    assert_told_only(1);
}

TEST(nobody_is_told_of_a_task_that_stays_below_or_wants_no_warning)
{
    size_t bytes = MIB / 4;
    begin();
    run_with(allocate, &bytes, (stint_budget){ .allocation = MIB, .memory = MIB, .wall_ns = 60000 * MS });
    run_with(allocate, &bytes, (stint_budget){ 0 });
    const stint_options options = { .size = sizeof options, .budget.allocation = MIB / 4 + CHUNK * 32 };
    run_task(allocate, &bytes, &options);
    assert_told_only(0);
}

static int check_until_told(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (count_told() == 0)
        stint_checkpoint();
    return 0;
}

TEST(a_task_is_told_of_when_it_has_used_a_part_of_its_time)
{
    static const stint_budget budgets[] = { { .wall_ns = 20000 * MS }, { .run_ns = 20000 * MS } };
    for (unsigned i = 0; i < 2; i++) {
        begin();
        stint_options options = { .size = sizeof options, .budget = budgets[i], .name = "job", .warn = 1 };
        assert_int_equal(run_task(check_until_told, NULL, &options).status, STINT_OK);
        assert_told_only(1);
        assert_told(0, STINT_REASON_DEADLINE, "job", 20000 * MS, 1);
    }
    begin();
    stint_options options = { .size = sizeof options, .budget.cpu_ns = 20000 * MS, .name = "job", .warn = 1 };
    assert_int_equal(run_task(check_until_told, NULL, &options).status, STINT_OK);
    assert_told_only(1);
    assert_told(0, STINT_REASON_CPU, "job", 20000 * MS, 1);
}

static int wait_for(void *future, void **value)
{
    (void)value;
    return stint_future_wait(future, NULL);
}

TEST(a_task_that_sleeps_is_told_of_in_time)
{
    struct gate gate = { 0 };
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    begin();
    stint_options options = { .size = sizeof options, .budget.wall_ns = 20000 * MS, .name = "job", .warn = 1 };
    stint_future *future = submit(pool, wait_for, held, &options);
    await_told(1);
    gate_open(&gate);
    assert_int_equal(take_in_time(future).status, STINT_OK);
    assert_told_only(1);
    stint_future_release(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int allocate_twice(void *arg, void **value)
{
    size_t bytes = MIB - MIB / 4;
    int error = allocate(&bytes, value);
    gate_hold(arg, value);
    return error != 0 ? error : allocate(&bytes, value);
}

TEST(a_task_is_told_of_again_when_its_budget_has_been_changed)
{
    struct gate gate = { 0 };
    stint_pool *pool = make_pool(.workers = 1);
    begin();
    stint_options options = { .size = sizeof options, .budget.allocation = MIB, .name = "job", .warn = 50 };
    stint_future *future = submit(pool, allocate_twice, &gate, &options);
    gate_await(&gate, 1);
    assert_int_equal(stint_future_set_budget(future, &(stint_budget){ .allocation = 2 * MIB }), 0);
    gate_open(&gate);
    assert_int_equal(take_in_time(future).status, STINT_OK);
    assert_told_only(2);
    assert_told(0, STINT_REASON_ALLOCATION_LIMIT, "job", MIB, 50);
    assert_told(1, STINT_REASON_ALLOCATION_LIMIT, "job", 2 * MIB, 50);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int hold_masked(void *gate, void **value)
{
    stint_mask();
    gate_hold(gate, value);
    stint_unmask();
    return 0;
}

/* The task makes no sample point meanwhile, so the thread that watches it is the one that would tell. */
TEST(nobody_is_told_of_a_limit_of_time_that_has_been_taken_away_or_raised)
{
    static const stint_budget later[] = { { .wall_ns = 0 }, { .wall_ns = 60000 * MS } };
    for (unsigned i = 0; i < 2; i++) {
        struct gate gate = { 0 };
        struct timespec past_mark = { .tv_nsec = 400 * (long)MS };
        stint_pool *pool = make_pool(.workers = 1);
        stint_options options = {
            .size = sizeof options, .budget.wall_ns = 20000 * MS, .name = "job", .warn = 1, .preemptible = true
        };
        begin();
        stint_future *future = submit(pool, hold_masked, &gate, &options);
        gate_await(&gate, 1);
        assert_int_equal(stint_future_set_budget(future, &later[i]), 0);
        nanosleep(&past_mark, NULL);
        for (unsigned j = 0; j < count_told(); j++) /* before the change, on a busy machine */
            assert_told(j, STINT_REASON_DEADLINE, "job", 20000 * MS, 1);
        gate_open(&gate);
        assert_int_equal(take_in_time(future).status, STINT_OK);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- Accounts and the process ------------------------------------------------------------------------------------- */

TEST(an_account_is_told_of_once_and_again_when_its_limits_are_set)
{
    size_t bytes = 3 * MIB;
    stint_account *account;
    stint_account_limits limits = {
        .size = sizeof limits, .allocation = 16 * MIB, .memory = 5 * MIB, .name = "tenant", .warn = 50
    };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = { .size = sizeof options, .account = account };
    begin();
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(run_task(allocate, &bytes, &options).status, STINT_OK);
    assert_told_only(2);
    assert_told(0, STINT_REASON_ACCOUNT, "tenant", 5 * MIB, 50);
    assert_true(told.list[0].memory);
    assert_told(1, STINT_REASON_ACCOUNT, "tenant", 16 * MIB, 50);
    assert_false(told.list[1].memory);
    assert_int_equal(stint_account_set_limits(account, &limits), 0);
    assert_int_equal(run_task(allocate, &bytes, &options).status, STINT_OK);
    assert_told_only(4);
    limits.warn = 101;
    assert_int_equal(stint_account_set_limits(account, &limits), EINVAL);
    stint_account_release(account);
}

/* And some more, without warnings. */
static int fill_until_told(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (unsigned more = 0; more<80; more += count_told()> 0) {
        void *block = stint_malloc(64 * KIB);
        if (block == NULL)
            return ENOMEM;
        memset(block, 1, 64 * KIB);
        gate_nap();
    }
    return 0;
}

TEST(the_process_is_told_of_once_while_it_stays_near_its_limit)
{
    begin();
    assert_int_equal(stint_global_set_warning(101), EINVAL);
    assert_int_equal(stint_global_set_warning(1), 0);
    assert_int_equal(stint_global_set_memory_limit(4 * GIB), 0);
    assert_int_equal(run_task(fill_until_told, NULL, NULL).status, STINT_OK);
    assert_told_only(1);
    assert_int_equal(told.list[0].reason, STINT_REASON_GLOBAL_MEMORY_LIMIT);
    assert_int_equal(told.list[0].limit, 4 * GIB);
    assert_string_equal(told.names[0], "-");
    assert_int_equal(stint_global_set_memory_limit(0), 0);
    assert_int_equal(stint_global_set_warning(0), 0);
}

/* --- Walled tasks ------------------------------------------------------------------------------------------------- */

static int allocate_much(const void *input, size_t size, stint_reply *reply)
{
    size_t bytes = MIB - MIB / 4;
    (void)input;
    (void)size;
    (void)reply;
    return allocate(&bytes, NULL);
}

static int spin_a_while(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
        ;
    return 0;
}

TEST(a_walled_task_is_told_of_for_each_of_its_limits)
{
    if (lack_of_filters() != NULL)
        skip_because(lack_of_filters());
    stint_wall *wall = make_wall(.children = 1);
    stint_pool *pool = make_pool(.workers = 1);
    static const struct {
        stint_wall_fn *fn;
        stint_budget budget;
        stint_reason reason;
    } cases[] = {
        { allocate_much, { .allocation = MIB }, STINT_REASON_ALLOCATION_LIMIT },
        { allocate_much, { .memory = MIB }, STINT_REASON_MEMORY_LIMIT },
        { spin_a_while, { .wall_ns = 20000 * MS }, STINT_REASON_DEADLINE },
        { spin_a_while, { .cpu_ns = 20000 * MS }, STINT_REASON_CPU },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stint_options options = {
            .size = sizeof options, .budget = cases[i].budget, .name = "job", .warn = i < 2 ? 50 : 1
        };
        begin();
        stint_outcome outcome = run_walled(pool, wall, cases[i].fn, &options);
        assert_string_equal(stint_reason_name(outcome.reason), "none");
        stint_free(outcome.value);
        assert_told_only(1);
        assert_told(0, cases[i].reason, "job", i < 2 ? MIB : 20000 * MS, options.warn);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
}

/* --- What is counted, and what is refused ------------------------------------------------------------------------- */

static bool metrics_have(const char *line)
{
    static char text[1 << 16];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, (int)sizeof text) > 0, 1);
    assert_int_equal(stint_metrics_write(ends[1]), 0);
    close(ends[1]);
    size_t size = 0;
    ssize_t got;
    while ((got = read(ends[0], text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    close(ends[0]);
    return strstr(text, line) != NULL;
}

static bool metrics_have_tripped_now(void)
{
    return metrics_have("stint_warnings_total{reason=\"allocation-limit\"}");
}

TEST(warnings_are_counted_although_nobody_is_told)
{
    size_t bytes = MIB - MIB / 4;
    begin();
    assert_int_equal(stint_warnings_set(NULL, NULL), 0);
    run_with(allocate, &bytes, (stint_budget){ .allocation = MIB });
    assert_true(metrics_have_tripped_now());
    assert_told_only(0);
}

TEST(more_than_a_hundred_percent_is_refused)
{
    const stint_options options = { .size = sizeof options, .warn = 101 };
    stint_outcome outcome;
    assert_int_equal(stint_run(do_nothing, NULL, &options, &outcome), EINVAL);
}

TEST_MAIN()
