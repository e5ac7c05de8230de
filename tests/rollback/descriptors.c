/* SPDX-License-Identifier: MIT
 *
 * The audit of descriptors that a rolled-back task leaves open. */
#include "support.h"

struct told {
    int count;
    int descriptor;
    char target[256];
    const char *task;
};

static void note(const stint_open_fd *descriptor, void *argument)
{
    struct told *told = argument;
    told->count++;
    told->descriptor = descriptor->fd;
    told->task = descriptor->task;
    snprintf(told->target, sizeof told->target, "%s", descriptor->target);
}

static int open_two_close_one_and_fail(void *result, void **value)
{
    (void)value;
    int *left = result;
    *left = open("/dev/null", O_RDONLY);
    int other = open("/dev/zero", O_RDONLY);
    close(other);
    return ECANCELED;
}

static int open_one(void *result, void **value)
{
    (void)value;
    *(int *)result = open("/dev/null", O_RDONLY);
    return 0;
}

static void close_descriptor(void *descriptor)
{
    close(*(int *)descriptor);
}

static int guard_one_and_be_interrupted(void *unused, void **value)
{
    (void)unused;
    (void)value;
    int descriptor = open("/dev/null", O_RDONLY);
    STINT_GUARD(close_descriptor, &descriptor);
    for (int i = 0; i < 1000; i++)
        keep(stint_malloc(100));
    return 0;
}

static const stint_options audited = { .size = sizeof(stint_options), .audit_fds = true, .name = "opener" };

TEST(what_a_rolled_back_task_leaves_open_is_counted_reported_and_left_open)
{
    struct told told = { 0 };
    int left = -1;
    stint_fds_set_report(note, &told);
    stint_outcome outcome = run_task(open_two_close_one_and_fail, &left, &audited);
    stint_fds_set_report(NULL, NULL);
    assert_int_equal(outcome.usage.open_fds, 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.descriptor, left);
    assert_string_equal(told.target, "/dev/null");
    assert_string_equal(told.task, "opener");
    assert_int_equal(close(left), 0);
}

TEST(an_ok_task_may_leave_descriptors)
{
    int left = -1;
    assert_int_equal(run_task(open_one, &left, &audited).usage.open_fds, 0);
    assert_int_equal(close(left), 0);
}

TEST(what_a_guard_closes_is_not_counted)
{
    stint_options options = audited;
    options.budget.allocation = 10000;
    stint_outcome outcome = run_task(guard_one_and_be_interrupted, NULL, &options);
    assert_limit_passed(outcome);
    assert_int_equal(outcome.usage.open_fds, 0);
}

TEST(without_the_option_nothing_is_counted)
{
    int left = -1;
    assert_int_equal(run_task(open_two_close_one_and_fail, &left, NULL).usage.open_fds, 0);
    assert_int_equal(close(left), 0);
}

TEST(high_descriptors_are_seen)
{
    int left = -1;
    int filler[300];
    for (int i = 0; i < 300; i++)
        filler[i] = open("/dev/null", O_RDONLY);
    assert_int_equal(run_task(open_two_close_one_and_fail, &left, &audited).usage.open_fds, 1);
    assert_true(left > 300);
    close(left);
    for (int i = 0; i < 300; i++)
        close(filler[i]);
}

TEST_MAIN()
