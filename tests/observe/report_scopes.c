/* SPDX-License-Identifier: MIT
 *
 * Which scope, and which of a task's threads, a report is about. */
#include "growing.h"

static int run_growing(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    int error = stint_run(grow, arg, NULL, &outcome);
    sink++;
    return error;
}

TEST(frames_of_the_library_between_those_of_the_task_are_left_out)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(run_growing, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_int_equal(json_array_size(stopped), 4);
    assert_int_equal(place_of(stopped, "grow"), 2);
    assert_int_equal(place_of(stopped, "run_growing"), 3);
    json_decref(report);
}

/* --- Scopes in scopes. --- */

static stint_report *inner_report;
static stint_outcome inner_outcome;

static int run_inside(void *arg, void **value)
{
    (void)value;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    options.on_interrupt = STINT_JUMP;
    void *volatile own = malloc(5000);
    sink += own != NULL;
    stint_run_reported(grow, arg, &options, &inner_outcome, &inner_report);
    return 0;
}

TEST(the_report_is_that_of_the_scope_whose_limit_was_passed)
{
    (void)state;
    inner_report = NULL;
    stint_options options = options_of(STINT_REPORT_HEAP, MIB);
    json_t *report = read_of(run_inside, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_int_equal(place_of(stopped, "grow_list"), 0);
    assert_true(is_in(stopped, "run_inside"));
    assert_null(inner_report);
    assert_int_equal(inner_outcome.reason, STINT_REASON_OUTER);
    /* The report covers the inner scope's blocks and its own. */
    assert_in_range(number_of(json_at(report, "what", "bytes")), MIB * 7 / 8, MIB * 9 / 8);
    assert_non_null(class_for(report, 5000));
    json_decref(report);
}

static int run_limited_inside(void *arg, void **value)
{
    (void)value;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    stint_report *report = NULL;
    stint_outcome outcome;
    int error = stint_run_reported(grow, arg, &options, &outcome, &report);
    inner_report = report;
    return error;
}

TEST(an_inner_scope_has_a_report_of_its_own)
{
    (void)state;
    inner_report = NULL;
    stint_options options = options_of(STINT_REPORT_STACK, 8 * MIB);
    stint_report *outer = (stint_report *)(uintptr_t)&sink;
    stint_outcome outcome;
    assert_int_equal(stint_run_reported(run_limited_inside, (void *)(uintptr_t)&sink, &options, &outcome, &outer), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_null(outer);
    assert_non_null(inner_report);
    json_t *report = report_read(inner_report);
    assert_false(is_in(json_at(report, "where", "stopped"), "run_limited_inside"));
    assert_true(is_in(json_at(report, "where", "stopped"), "grow"));
    json_decref(report);
    stint_report_release(inner_report);
}

/* --- Subtasks. --- */

static atomic_bool has_begun;

static int tell_and_grow(void *arg, void **value)
{
    (void)value;
    atomic_store(&has_begun, true);
    int error = grow_for_ever(arg);
    sink++;
    return error;
}

static int fork_and_wait(void *arg, void **value)
{
    (void)value;
    stint_subtask subtask;
    stint_subtask other;
    int error = stint_fork(&subtask, tell_and_grow, arg);
    /* Others are served at forks and joins. */
    while (error == 0 && !atomic_load(&has_begun)) {
        error = stint_fork(&other, do_nothing, NULL);
        if (error == 0)
            error = stint_join(&other, NULL);
        sched_yield();
    }
    return error != 0 ? error : stint_join(&subtask, NULL);
}

TEST(a_task_that_is_stopped_on_another_thread_is_where_that_was)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 2, .report = STINT_REPORT_STACK);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = MIB;
    stint_future *future = submit(pool, fork_and_wait, (void *)(uintptr_t)&sink, &options);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    stint_report *report;
    assert_int_equal(stint_future_report(future, &report), 0);
    json_t *read = report_read(report);
    assert_true(json_is_true(json_at(read, "where", "on_other_thread")));
    assert_true(is_in(json_at(read, "where", "stopped"), "tell_and_grow"));
    json_decref(read);
    stint_report_release(report);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
