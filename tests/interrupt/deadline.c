/* SPDX-License-Identifier: MIT
 *
 * The deadline: where it is seen, and that it is not seen before its time. No upper bounds on durations: a machine may
 * be busy. */
#include "support.h"

static void nap(uint64_t ns)
{
    const struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
    nanosleep(&time, NULL);
}

static stint_options with_deadline(uint64_t ns, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = ns;
    options.on_interrupt = mode;
    return options;
}

static void assert_deadline_passed(stint_outcome outcome, uint64_t wall_ns)
{
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    assert_true(outcome.usage.wall_ns >= wall_ns);
}

static int allocate_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!stint_is_interrupted())
        stint_free(keep(stint_malloc(64)));
    return 0;
}

TEST(a_loop_that_allocates_or_checks_ends_at_its_deadline)
{
    for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
        stint_options options = with_deadline(20 * MS, (stint_on_interrupt)mode);
        assert_deadline_passed(run_task(allocate_for_ever, NULL, &options), 20 * MS);
        assert_deadline_passed(run_task(check_for_ever, NULL, &options), 20 * MS);
    }
}

static int sleep_so_long(void *arg, void **value)
{
    (void)value;
    nap(*(uint64_t *)arg);
    return 0;
}

TEST(a_task_without_sample_points_is_late_all_the_same)
{
    uint64_t sleep = 30 * MS;
    stint_options options = with_deadline(10 * MS, STINT_JUMP);
    assert_deadline_passed(run_task(sleep_so_long, &sleep, &options), 30 * MS);
}

TEST(a_task_in_time_is_not_stopped)
{
    uint64_t sleep = MS;
    static const uint64_t limits[] = { UINT64_C(3600000000000), UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX };
    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        stint_options options = with_deadline(limits[i], STINT_JUMP);
        stint_outcome outcome = run_task(sleep_so_long, &sleep, &options);
        assert_ok(outcome);
        assert_true(outcome.usage.wall_ns >= MS);
    }
}

struct masked {
    volatile bool inside_done;
    volatile bool after_unmask;
};

static int be_late_while_masked(void *arg, void **value)
{
    struct masked *masked = arg;
    (void)value;
    stint_mask();
    nap(30 * MS);
    stint_checkpoint();
    stint_free(keep(stint_malloc(64)));
    masked->inside_done = true;
    stint_unmask();
    masked->after_unmask = true;
    return 0;
}

TEST(a_deadline_waits_for_the_end_of_a_mask)
{
    struct masked masked = { false, false };
    stint_options options = with_deadline(5 * MS, STINT_JUMP);
    stint_outcome outcome = run_task(be_late_while_masked, &masked, &options);
    assert_deadline_passed(outcome, 30 * MS);
    assert_true(masked.inside_done);
    assert_false(masked.after_unmask);
    assert_int_equal(outcome.usage.deferred, 2);
}

struct nested {
    stint_options inner;
    volatile bool returned;
    stint_outcome outcome;
};

static int run_nested(void *arg, void **value)
{
    struct nested *nested = arg;
    (void)value;
    stint_run(allocate_for_ever, NULL, &nested->inner, &nested->outcome);
    nested->returned = true;
    return 0;
}

TEST(a_scope_inside_has_no_more_time_than_the_one_around_it)
{
    stint_options outer = with_deadline(20 * MS, STINT_JUMP);
    struct nested nested = { .inner = with_deadline(3600000 * MS, STINT_JUMP) };
    assert_deadline_passed(run_task(run_nested, &nested, &outer), 20 * MS);
    assert_false(nested.returned);
}

TEST(a_scope_inside_may_have_less_time_and_be_late_alone)
{
    stint_options outer = with_deadline(3600000 * MS, STINT_JUMP);
    struct nested nested = { .inner = with_deadline(20 * MS, STINT_JUMP) };
    assert_ok(run_task(run_nested, &nested, &outer));
    assert_true(nested.returned);
    assert_deadline_passed(nested.outcome, 20 * MS);
}

TEST_MAIN()
