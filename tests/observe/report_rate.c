/* SPDX-License-Identifier: MIT
 *
 * Samples of one task alone, for its report. */
#include <math.h>
#include <stint/observe.h>
#include <sys/wait.h>

#include "reports.h"

static _Thread_local volatile int sink;
static _Thread_local void *volatile passing; /* tasks run at once */

#define RATE (8.0 / 4096)

NOINLINE static void hold_much(void **list)
{
    for (int i = 0; i < 3000; i++) {
        void **block = malloc(1000);
        *block = *list;
        *list = block;
    }
    sink++;
}

/* A freed block has no holder, though its place is used again. */
NOINLINE static void hold_little(void **list)
{
    for (int i = 0; i < 300; i++) {
        passing = malloc(1000);
        free(passing);
        void **block = malloc(1000);
        *block = *list;
        *list = block;
        passing = malloc(5000);
        free(passing);
        *list = realloc(block, 1000);
    }
    sink++;
}

static int hold(void *arg, void **value)
{
    (void)arg;
    hold_much(value);
    hold_little(value);
    sink++;
    return EBADMSG;
}

static int hold_and_end_ok(void *arg, void **value)
{
    hold(arg, value);
    while (*value != NULL) {
        void *next = *(void **)*value;
        free(*value);
        *value = next;
    }
    return 0;
}

static stint_options rated(double rate)
{
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    options.sample_rate = rate;
    return options;
}

/* 3,000 and 300 blocks that are charged 1,008 bytes each give this many samples, within 6 deviations. */
static void assert_holders(json_t *report, double interval)
{
    json_t *holders = json_at(report, "who", "holders");
    assert_int_equal(number_of(json_at(report, "who", "interval")), (uint64_t)interval);
    static const char *const names[] = { "hold_much", "hold_little" };
    static const double counts[] = { 3000, 300 };
    uint64_t all = 0;
    for (size_t i = 0; i < 2; i++) {
        json_t *holder = json_array_get(holders, i);
        assert_non_null(holder);
        assert_true(is_in(json_at(holder, "frames"), names[i]));
        double expected = counts[i] * 1008 / interval;
        uint64_t samples = number_of(json_at(holder, "samples"));
        double room = 6 * sqrt(expected);
        assert_in_range(samples, expected - room, expected + room);
        assert_int_equal(number_of(json_at(holder, "bytes")), samples * (uint64_t)interval);
        assert_true(number_of(json_at(holder, "error_percent")) >= (uint64_t)(100 / sqrt((double)samples)));
        all += samples;
    }
    assert_int_equal(json_array_size(holders), 2);
    assert_int_equal(number_of(json_at(report, "who", "samples")), all);
}

TEST(with_a_rate_of_its_own_a_task_has_its_holders_named_and_weighed)
{
    (void)state;
    stint_options options = rated(RATE);
    json_t *report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
    assert_holders(report, 4096);
    json_decref(report);
    /* And the next one without has none. */
    options = rated(0);
    report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
    assert_null(json_object_get(report, "who"));
    json_decref(report);
}

TEST(beside_a_running_profile_the_rate_counts_and_the_profile_is_as_without)
{
    (void)state;
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    profile.interval = 1024;
    profile.seed = 1;
    stint_options options = rated(RATE);
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    assert_int_equal(stint_profile_start(&profile), 0);
    json_t *report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
    assert_int_equal(stint_profile_stop(), 0);
    assert_holders(report, 4096);
    json_decref(report);
    assert_int_equal(stint_profile_read(&totals), 0);
    /* hold allocates 3,000 + 300 * 2 blocks of 1,008 bytes and 300 of 5,008, and all of it ends. */
    double expected = (3600.0 * 1008 + 300 * 5008) / 1024;
    assert_true((double)totals.samples > expected - 6 * sqrt(expected));
    assert_true(totals.inuse_bytes < 256 * 1024);
}

static void assert_holders_of(stint_fn *fn)
{
    stint_options options = rated(RATE);
    json_t *report = read_of(fn, NULL, &options, STINT_REASON_FAILED);
    assert_holders(report, 4096);
    json_decref(report);
}

static int hold_over_a_profile(void *arg, void **value)
{
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    (void)arg;
    hold_much(value);
    assert_int_equal(stint_profile_start(&profile), 0);
    assert_int_equal(stint_profile_stop(), 0);
    hold_little(value);
    return EBADMSG;
}

TEST(a_profile_that_comes_and_goes_meanwhile_takes_no_samples_away)
{
    (void)state;
    assert_holders_of(hold_over_a_profile);
}

TEST(tasks_at_once_have_each_its_own_rate)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *futures[8];
    for (size_t i = 0; i < 8; i++) {
        stint_options options = rated(i % 2 == 0 ? RATE : RATE / 2);
        futures[i] = submit(pool, hold, NULL, &options);
    }
    for (size_t i = 0; i < 8; i++) {
        stint_report *taken;
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        assert_int_equal(stint_future_report(futures[i], &taken), 0);
        json_t *report = report_read(taken);
        assert_holders(report, i % 2 == 0 ? 4096 : 8192);
        json_decref(report);
        stint_report_release(taken);
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* A scope inside is sampled with its task; after its rollback its blocks have no holder. */
static int hold_in_scopes(void *arg, void **value)
{
    stint_outcome outcome;
    (void)arg;
    assert_int_equal(stint_run(hold, NULL, NULL, &outcome), 0);
    hold_much(value);
    hold_little(value);
    return EBADMSG;
}

TEST(what_an_inner_scope_has_rolled_back_is_held_by_nobody)
{
    (void)state;
    assert_holders_of(hold_in_scopes);
}

/* All of them at one place. */
static int hold_the_last_of_many(void *arg, void **value)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        *value = malloc(1000);
        if (i < 999)
            free(*value);
    }
    return EBADMSG;
}

/* It is charged 1,008 bytes. */
static void assert_held_once(double rate, double interval)
{
    stint_options options = rated(rate);
    json_t *report = read_of(hold_the_last_of_many, NULL, &options, STINT_REASON_FAILED);
    json_t *holders = json_at(report, "who", "holders");
    double expected = 1008 / interval;
    double room = 6 * sqrt(expected);
    assert_int_equal(json_array_size(holders), 1);
    assert_in_range(number_of(json_at(report, "who", "samples")), expected - room, expected + room);
    json_decref(report);
}

TEST(a_block_where_sampled_ones_were_before_is_held_once)
{
    (void)state;
    assert_held_once(8.0 / 16, 16);
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    profile.interval = 16;
    assert_int_equal(stint_profile_start(&profile), 0);
    assert_held_once(0, 16);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(a_rate_without_a_report_changes_nothing)
{
    (void)state;
    static const stint_report_level levels[] = { STINT_REPORT_NONE, STINT_REPORT_STACK, STINT_REPORT_HEAP };
    for (size_t i = 0; i < 3; i++) {
        stint_options options = rated(1);
        options.report = levels[i];
        stint_outcome outcome;
        stint_report *report = NULL;
        assert_int_equal(stint_run_reported(hold_and_end_ok, NULL, &options, &outcome, &report), 0);
        assert_int_equal(outcome.status, STINT_OK);
        assert_null(report);
        assert_int_equal(stint_run(hold, NULL, &options, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    }
}

TEST(a_rate_that_is_none_is_refused)
{
    (void)state;
    const double bad[] = { -1, -1e-300, NAN, INFINITY, -INFINITY, 1.0000001 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stint_options options = rated(bad[i]);
        stint_outcome outcome;
        assert_int_equal(stint_run(hold_and_end_ok, NULL, &options, &outcome), EINVAL);
    }
    const double good[] = { 0.0, -0.0, 1e-300, 1 };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        stint_options options = rated(good[i]);
        json_t *report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
        assert_int_equal(json_object_get(report, "who") != NULL, good[i] > 0);
        json_decref(report);
    }
}

static int fork_in_between(void *arg, void **value)
{
    hold_much(value);
    pid_t child = fork();
    if (child == 0)
        return hold(arg, value);
    int status;
    waitpid(child, &status, 0);
    hold_little(value);
    return WIFEXITED(status) ? EBADMSG + WEXITSTATUS(status) : -1;
}

TEST(a_fork_leaves_the_rate_to_the_parent)
{
    if (lack_of_lone_threads() != NULL)
        skip_because(lack_of_lone_threads());
    stint_options options = rated(RATE);
    pid_t parent = getpid();
    stint_report *taken = NULL;
    stint_outcome outcome;
    int error = stint_run_reported(fork_in_between, NULL, &options, &outcome, &taken);
    if (getpid() != parent)
        _exit(error != 0 || taken == NULL || stint_run(hold_and_end_ok, NULL, &options, &outcome) != 0);
    assert_int_equal(error, 0);
    assert_int_equal(outcome.error, EBADMSG);
    json_t *report = report_read(taken);
    assert_holders(report, 4096);
    json_decref(report);
    stint_report_release(taken);
}

TEST_MAIN()
