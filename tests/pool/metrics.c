/* SPDX-License-Identifier: MIT
 *
 * stint_metrics_write: its numbers agree with the work that was done, wherever it was done. metrics_text.py checks
 * that the text is OpenMetrics. */
#include "metrics.h"

static int fall_short(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return EPROTO;
}

/* --- Pools -------------------------------------------------------------------------------------------------------- */

TEST(the_ends_of_a_pool_s_tasks_are_counted_by_reason_and_their_waits_runs_and_charges_in_histograms)
{
    stint_pool *pool = make_pool(.workers = 2, .name = "ends");
    stint_options limited = STINT_OPTIONS_INIT;
    limited.budget.allocation = 100;
    size_t size = 4000;
    uint64_t charged = 0;
    uint64_t ran = 0;
    uint64_t waited = 0;
    for (int i = 0; i < 60; i++) {
        stint_outcome outcome =
            run_in_pool(pool, i % 3 == 0 ? fall_short : allocate, &size, i % 3 == 1 ? &limited : NULL);
        charged += outcome.usage.allocated;
        ran += outcome.usage.wall_ns;
        waited += outcome.usage.queued_ns;
    }
    char *text = metrics();
    assert_true(look_up(text, "stint_pool_tasks_total{pool=\"ends\",reason=\"failed\"}") == 20);
    assert_true(look_up(text, "stint_pool_tasks_total{pool=\"ends\",reason=\"allocation-limit\"}") == 20);
    assert_true(look_up(text, "stint_pool_tasks_total{pool=\"ends\",reason=\"none\"}") == 20);
    assert_true(look_up(text, "stint_pool_started_tasks_total{pool=\"ends\"}") == 60);
    assert_true(look_up(text, "stint_pool_workers{pool=\"ends\"}") == 2);
    assert_true(look_up(text, "stint_pool_task_charged_bytes_sum{pool=\"ends\"}") == (double)charged);
    assert_true(look_up(text, "stint_pool_task_run_seconds_sum{pool=\"ends\"}") == (double)ran / 1e9);
    assert_true(look_up(text, "stint_pool_task_wait_seconds_sum{pool=\"ends\"}") == (double)waited / 1e9);
    assert_true(look_up(text, "stint_pool_task_charged_bytes_count{pool=\"ends\"}") == 60);
    assert_true(look_up(text, "stint_pool_task_run_seconds_count{pool=\"ends\"}") == 60);
    assert_true(look_up(text, "stint_pool_task_wait_seconds_bucket{pool=\"ends\",le=\"+Inf\"}") == 60);
    free(text);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_true(read_metric("stint_pool_workers{pool=\"ends\"}") == -1);
}

TEST(every_reason_that_has_a_name_has_a_counter)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "named");
    char *text = metrics();
    for (int reason = 0; reason < STINT_REASONS_MAX; reason++) {
        bool is_named = strcmp(stint_reason_name((stint_reason)reason), "unknown") != 0;
        char sample[128];
        snprintf(sample, sizeof sample, "stint_pool_tasks_total{pool=\"named\",reason=\"%s\"}",
                 stint_reason_name((stint_reason)reason));
        assert_true(look_up(text, sample) == (is_named ? 0 : -1));
        snprintf(sample, sizeof sample, "stint_runs_total{reason=\"%s\"}", stint_reason_name((stint_reason)reason));
        assert_int_equal(look_up(text, sample) >= 0, is_named);
    }
    free(text);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_bucket_of_bytes_holds_what_is_as_large_as_its_bound)
{
    static const size_t sizes[] = { 0, 256, 257, 1024, 1025, 4096, 16384, 16385 };
    static const struct {
        const char *bound;
        unsigned count;
    } buckets[] = {
        { "256.0", 2 }, { "1024.0", 4 }, { "4096.0", 6 }, { "16384.0", 7 }, { "65536.0", 8 }, { "+Inf", 8 }
    };
    stint_pool *pool = make_pool(.workers = 1, .name = "bounds");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        stint_outcome outcome = run_in_pool(pool, size == 0 ? do_nothing : allocate, &size, NULL);
        /* Blocks are charged by their size class, except these. */
        assert_true(outcome.usage.allocated == size || (outcome.usage.allocated > size && size % 2 == 1));
    }
    char *text = metrics();
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) {
        char sample[128];
        snprintf(sample, sizeof sample, "stint_pool_task_charged_bytes_bucket{pool=\"bounds\",le=\"%s\"}",
                 buckets[i].bound);
        assert_true(look_up(text, sample) == buckets[i].count);
    }
    free(text);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_time_is_in_the_first_bucket_that_it_fits_in)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "times");
    struct gate gate = { 0 };
    stint_future *slow = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    gate_open(&gate);
    assert_true(take(slow).usage.wall_ns >= 20 * MS);
    char *text = metrics();
    assert_true(look_up(text, "stint_pool_task_run_seconds_bucket{pool=\"times\",le=\"0.016777216\"}") == 0);
    assert_true(look_up(text, "stint_pool_task_run_seconds_bucket{pool=\"times\",le=\"274.877906944\"}") == 1);
    assert_true(look_up(text, "stint_pool_task_run_seconds_sum{pool=\"times\"}") >= 0.02);
    free(text);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(what_runs_and_what_waits_is_shown_while_it_does)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "now");
    stint_account *account = make_account(NULL, .running = 1);
    struct gate gate = { 0 };
    stint_future *futures[6];
    futures[0] = submit_for(pool, gate_hold, &gate, account);
    gate_await(&gate, 1);
    for (int i = 1; i < 6; i++)
        futures[i] = i < 3 ? submit_for(pool, do_nothing, NULL, account) : submit(pool, do_nothing, NULL, NULL);
    char *text = metrics();
    assert_true(look_up(text, "stint_pool_running_workers{pool=\"now\"}") == 1);
    assert_true(look_up(text, "stint_pool_waiting_tasks{pool=\"now\"}") == 5);
    free(text);
    gate_open(&gate);
    for (int i = 0; i < 6; i++)
        take(futures[i]);
    assert_true(read_metric("stint_pool_waiting_tasks{pool=\"now\"}") == 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

struct brood {
    stint_pool *pool;
    struct gate gate;
    stint_future *futures[20];
    atomic_uint begun;
};

static int note_begun(void *arg, void **value)
{
    (void)value;
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int have_all_stolen(void *arg, void **value)
{
    struct brood *brood = arg;
    stint_subtask part;
    (void)value;
    for (int i = 0; i < 20; i++)
        stint_submit(brood->pool, do_nothing, NULL, NULL, &brood->futures[i]);
    for (int i = 0; i < 20; i++) {
        while (!stint_future_is_ready(brood->futures[i]))
            gate_nap();
    }
    stint_fork(&part, note_begun, &brood->begun);
    have_stolen(&brood->begun);
    return stint_join(&part, NULL);
}

TEST(steals_and_parks_are_counted)
{
    struct brood brood = { .pool = make_pool(.workers = 2, .name = "thieves") };
    assert_ok(take(submit(brood.pool, have_all_stolen, &brood, NULL)));
    release_all(brood.futures, 20);
    while (read_metric("stint_pool_parks_total{pool=\"thieves\"}") < 2)
        gate_nap();
    char *text = metrics();
    assert_true(look_up(text, "stint_pool_stolen_tasks_total{pool=\"thieves\"}") == 20);
    assert_true(look_up(text, "stint_pool_stolen_subtasks_total{pool=\"thieves\"}") >= 1);
    free(text);
    assert_int_equal(stint_pool_destroy(brood.pool), 0);
}

static int sleep_in_region(void *arg, void **value)
{
    stint_blocking_begin();
    int error = gate_hold(arg, value);
    stint_blocking_end();
    return error;
}

TEST(a_substitute_is_counted_that_stands_in_for_a_sleeper)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "substituted");
    struct gate gate = { 0 };
    stint_future *sleeper = submit(pool, sleep_in_region, &gate, NULL);
    gate_await(&gate, 1);
    take(submit(pool, do_nothing, NULL, NULL));
    char *text = metrics();
    assert_true(look_up(text, "stint_pool_asleep_workers{pool=\"substituted\"}") == 1);
    assert_true(look_up(text, "stint_pool_substitutes{pool=\"substituted\"}") == 1);
    assert_true(look_up(text, "stint_pool_substitutions_total{pool=\"substituted\"}") == 1);
    assert_true(look_up(text, "stint_pool_missed_substitutions_total{pool=\"substituted\"}") == 0);
    assert_true(look_up(text, "stint_pool_neglected_tasks_total{pool=\"substituted\"}") == 0);
    free(text);
    gate_open(&gate);
    take(sleeper);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_second_pool_of_a_name_gets_a_number_and_the_next_the_name_again)
{
    stint_pool *first = make_pool(.workers = 1, .name = "twin");
    stint_pool *second = make_pool(.workers = 2, .name = "twin");
    assert_true(read_metric("stint_pool_workers{pool=\"twin\"}") == 1);
    assert_true(read_metric("stint_pool_workers{pool=\"twin#2\"}") == 2);
    assert_int_equal(stint_pool_destroy(first), 0);
    stint_pool *third = make_pool(.workers = 3, .name = "twin");
    assert_true(read_metric("stint_pool_workers{pool=\"twin\"}") == 3);
    assert_true(read_metric("stint_pool_workers{pool=\"twin#2\"}") == 2);
    assert_int_equal(stint_pool_destroy(second), 0);
    assert_int_equal(stint_pool_destroy(third), 0);
}

/* --- Accounts ----------------------------------------------------------------------------------------------------- */

TEST(an_account_s_tasks_are_counted_under_its_name_in_every_pool_and_outside_also_when_it_is_gone)
{
    stint_pool *pools[] = { make_pool(.workers = 1), make_pool(.workers = 2) };
    size_t size = 1000;
    uint64_t charged = 0;
    for (int i = 0; i < 8; i++) {
        stint_account *account = make_account(NULL, .name = "tenant");
        stint_options options = { .size = sizeof options, .account = account };
        charged += take(submit_for(pools[i % 2], allocate, &size, account)).usage.allocated;
        charged += take(submit_for(pools[i % 2], fall_short, NULL, account)).usage.allocated;
        charged += run_task(allocate, &size, &options).usage.allocated;
        stint_account_release(account);
    }
    char *text = metrics();
    assert_true(look_up(text, "stint_account_tasks_total{account=\"tenant\",reason=\"none\"}") == 16);
    assert_true(look_up(text, "stint_account_tasks_total{account=\"tenant\",reason=\"failed\"}") == 8);
    assert_true(look_up(text, "stint_account_charged_bytes_total{account=\"tenant\"}") == (double)charged);
    free(text);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_pool_destroy(pools[i]), 0);
}

TEST(tasks_of_an_account_that_never_begin_are_counted_for_it_once)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "unbegun");
    stint_account *account = make_account(NULL, .name = "impatient");
    struct gate gate = { 0 };
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_options late = { .size = sizeof late, .account = account, .budget = { .wall_ns = 1 } };
    stint_future *futures[] = { submit_for(pool, do_nothing, NULL, account), submit(pool, do_nothing, NULL, &late) };
    stint_future_cancel(futures[0]);
    assert_cancelled(take(futures[0]), STINT_REASON_TOKEN);
    assert_outcome(take(futures[1]), STINT_ERROR, STINT_REASON_EXPIRED, ETIMEDOUT);
    gate_open(&gate);
    take(holder);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    char *text = metrics();
    assert_true(look_up(text, "stint_account_tasks_total{account=\"impatient\",reason=\"token\"}") == 1);
    assert_true(look_up(text, "stint_account_tasks_total{account=\"impatient\",reason=\"expired\"}") == 1);
    assert_true(look_up(text, "stint_account_tasks_total{account=\"impatient\",reason=\"none\"}") == 0);
    assert_true(look_up(text, "stint_pool_tasks_total{pool=\"unbegun\",reason=\"token\"}") == 1);
    assert_true(look_up(text, "stint_pool_task_run_seconds_count{pool=\"unbegun\"}") == 1);
    free(text);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

static void run_for(stint_account *account)
{
    stint_options options = { .size = sizeof options, .account = account };
    assert_ok(run_task(do_nothing, NULL, &options));
}

TEST(an_account_without_a_name_is_counted_with_the_one_it_lies_in)
{
    double others = read_metric("stint_account_tasks_total{account=\"other\",reason=\"none\"}");
    stint_account *tenant = make_account(NULL, .name = "landlord");
    stint_account *request = make_account(tenant, .name = NULL);
    stint_account *lonely = make_account(NULL, .name = NULL);
    run_for(tenant);
    run_for(request);
    run_for(request);
    run_for(lonely);
    assert_true(read_metric("stint_account_tasks_total{account=\"landlord\",reason=\"none\"}") == 3);
    assert_true(read_metric("stint_account_tasks_total{account=\"other\",reason=\"none\"}") == others + 1);
    stint_account_release(lonely);
    stint_account_release(request);
    stint_account_release(tenant);
}

static int run_inner_one(void *arg, void **value)
{
    (void)value;
    stint_options options = { .size = sizeof options, .account = arg };
    stint_outcome outcome;
    return stint_run(do_nothing, NULL, &options, &outcome);
}

TEST(a_scope_in_one_of_the_same_account_is_no_second_task_of_it)
{
    stint_account *account = make_account(NULL, .name = "nested");
    stint_options options = { .size = sizeof options, .account = account };
    assert_ok(run_task(run_inner_one, account, &options));
    assert_true(read_metric("stint_account_tasks_total{account=\"nested\",reason=\"none\"}") == 1);
    stint_account_release(account);
}

/* --- The process -------------------------------------------------------------------------------------------------- */

TEST(what_stint_run_does_is_counted_on_any_thread_and_not_as_a_pool_s)
{
    stint_pool *pool = make_pool(.workers = 1, .name = "host");
    char *before = metrics();
    stint_account *account = make_account(NULL, .name = "guest");
    take(submit(pool, run_inner_one, account, NULL));
    run_task(fall_short, NULL, NULL);
    char *after = metrics();
    static const char *const one_more[] = { "stint_runs_total{reason=\"none\"}", "stint_runs_total{reason=\"failed\"}",
                                            "stint_pool_tasks_total{pool=\"host\",reason=\"none\"}" };
    for (size_t i = 0; i < 3; i++)
        assert_true(look_up(after, one_more[i]) == look_up(before, one_more[i]) + 1);
    assert_true(look_up(after, "stint_run_seconds_count") == look_up(before, "stint_run_seconds_count") + 2);
    free(before);
    free(after);
    stint_account_release(account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int allocate_masked_and_locked(void *arg, void **value)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    stint_mask();
    allocate(arg, value);
    allocate(arg, value);
    pthread_mutex_lock(&lock);
    stint_unmask();
    allocate(arg, value);
    pthread_mutex_unlock(&lock);
    return allocate(arg, value);
}

static int allocate_often(void *arg, void **value)
{
    for (int i = 0; i < 5; i++)
        stint_free(stint_malloc(*(size_t *)arg));
    *value = NULL;
    return 0;
}

TEST(interrupts_are_counted_by_the_way_they_are_delivered_and_by_the_rule_that_defers_them)
{
    size_t size = 10000;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1000;
    static const char *const ways[] = { "jump", "fail", "unwind" };
    for (unsigned way = STINT_JUMP; way <= STINT_UNWIND; way++) {
        char sample[64];
        snprintf(sample, sizeof sample, "stint_interrupts_delivered_total{way=\"%s\"}", ways[way]);
        double delivered = read_metric(sample);
        options.on_interrupt = (stint_on_interrupt)way;
        assert_limit_passed(run_task(allocate_often, &size, &options));
        assert_true(read_metric(sample) == delivered + 1);
    }
    options.on_interrupt = STINT_JUMP;
    char *before = metrics();
    assert_limit_passed(run_task(allocate_masked_and_locked, &size, &options));
    char *after = metrics();
    const char *sample = "stint_interrupts_deferred_total{rule=\"mask\"}";
    assert_true(look_up(after, sample) == look_up(before, sample) + 2);
    sample = "stint_interrupts_deferred_total{rule=\"lock\"}";
    if (stint_malloc_is_overridden())
        assert_true(look_up(after, sample) == look_up(before, sample) + 2);
    free(before);
    free(after);
}

TEST(a_size_that_cannot_be_had_is_no_fault_of_a_heap)
{
    volatile size_t size = SIZE_MAX / 2 + 1;
    assert_null(stint_malloc(size));
    assert_true(read_metric("stint_heap_faults_total") == 0);
}

static void *kept_block;

static int leave_a_block_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    kept_block = stint_malloc(100000);
    return 1;
}

TEST(what_a_rollback_keeps_is_shown_until_it_is_freed)
{
    assert_true(read_metric("stint_heap_faults_total") == 0);
    double heaps = read_metric("stint_kept_heaps_total");
    double bytes = read_metric("stint_kept_bytes");
    stint_outcome outcome = run_task(leave_a_block_and_fail, NULL, NULL);
    assert_true(outcome.usage.kept >= 100000);
    assert_true(read_metric("stint_kept_heaps_total") == heaps + 1);
    assert_true(read_metric("stint_kept_bytes") == bytes + (double)outcome.usage.kept);
    stint_free(kept_block);
    kept_block = NULL;
    assert_true(read_metric("stint_kept_bytes") == bytes);
}

TEST_MAIN()
