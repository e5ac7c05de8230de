/* SPDX-License-Identifier: MIT
 *
 * What profiles gather. profile_writing.c tests the writing. */
#include "profile.h"

static int hold_and_fail(void *count, void **value)
{
    hold(count, value);
    *value = NULL;
    return 1;
}

/* Off by less than four standard errors. */
static void assert_estimate(double estimate, double truth, double samples)
{
    assert_true((estimate - truth) * (estimate - truth) * samples < 16 * truth * truth);
}

TEST(what_cannot_be_is_refused)
{
    stint_profile_options options = STINT_PROFILE_OPTIONS_INIT;
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    (void)state;
    assert_int_equal(stint_profile_stop(), EINVAL);
    assert_int_equal(stint_profile_read(&totals), EINVAL);
    assert_int_equal(stint_profile_write(STDOUT_FILENO, STINT_PROFILE_PPROF), EINVAL);
    options.rate = 0.1; /* with an interval */
    assert_int_equal(stint_profile_start(&options), EINVAL);
    options.interval = 0;
    options.rate = 1.5;
    assert_int_equal(stint_profile_start(&options), EINVAL);
    options.rate = -1;
    assert_int_equal(stint_profile_start(&options), EINVAL);
    options.rate = 0;
    assert_int_equal(stint_profile_start(&options), EINVAL);
    assert_int_equal(stint_profile_read(&totals), EINVAL);
    assert_int_equal(stint_profile_start(NULL), 0);
    assert_int_equal(stint_profile_start(NULL), EBUSY);
    assert_int_equal(stint_profile_read(NULL), EINVAL);
    assert_int_equal(stint_profile_write(STDOUT_FILENO, (stint_profile_kind)99), EINVAL);
    assert_int_equal(stint_profile_write(STDOUT_FILENO, (stint_profile_kind)-1), EINVAL);
    assert_int_equal(stint_profile_stop(), 0);
    assert_int_equal(stint_profile_stop(), EINVAL);
}

TEST(estimates_are_near_what_was_charged)
{
    size_t count = 200000;
    stint_options options = STINT_OPTIONS_INIT;
    (void)state;
    start_profile(1);
    uint64_t charged = run_task(churn, &count, &options).usage.allocated;
    stint_profile_totals totals = totals_now();
    assert_estimate((double)totals.alloc_bytes, (double)charged, (double)totals.samples);
    /* Small blocks are more, and rarer: their number is less certain than their bytes. */
    assert_in_range(totals.alloc_objects, count * 9 / 10, count * 11 / 10);
    assert_int_equal(totals.inuse_bytes, 0);
    assert_int_equal(totals.inuse_objects, 0);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(a_rate_of_samples_a_word_gives_the_same_estimates)
{
    size_t count = 200000;
    stint_options options = STINT_OPTIONS_INIT;
    stint_profile_options profile = {
        .size = sizeof(stint_profile_options), .rate = 1e-3, .callstack_depth = 8, .seed = 5
    };
    (void)state;
    assert_int_equal(stint_profile_start(&profile), 0);
    uint64_t charged = run_task(churn, &count, &options).usage.allocated;
    stint_profile_totals totals = totals_now();
    assert_estimate((double)totals.alloc_bytes, (double)charged, (double)totals.samples);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(what_is_in_use_ends_with_its_free_or_its_task)
{
    size_t count = 20000;
    stint_options options = STINT_OPTIONS_INIT;
    (void)state;
    start_profile(2);
    stint_outcome kept = run_task(hold, &count, &options);
    stint_profile_totals totals = totals_now();
    assert_int_equal(totals.inuse_bytes, totals.alloc_bytes);
    assert_int_equal(totals.inuse_objects, totals.alloc_objects);
    assert_true(totals.samples > 1000);

    assert_int_equal(run_task(hold_and_fail, &count, &options).status, STINT_ERROR);
    stint_profile_totals after = totals_now();
    assert_true(after.alloc_bytes > totals.alloc_bytes * 3 / 2);
    assert_int_equal(after.inuse_bytes, totals.inuse_bytes);
    assert_int_equal(after.inuse_objects, totals.inuse_objects);

    free_all(kept.value);
    assert_int_equal(totals_now().inuse_bytes, 0);
    assert_int_equal(totals_now().inuse_objects, 0);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(a_stopped_profile_stays_as_it_was_until_the_next)
{
    size_t count = 20000;
    stint_options options = STINT_OPTIONS_INIT;
    (void)state;
    start_profile(3);
    stint_outcome kept = run_task(hold, &count, &options);
    stint_profile_totals before = totals_now();
    assert_int_equal(stint_profile_stop(), 0);
    free_all(kept.value);
    run_task(churn, &count, &options);
    stint_profile_totals after = totals_now();
    assert_same_totals(&before, &after);
    assert_true(after.inuse_bytes > 0);
    start_profile(3);
    assert_int_equal(totals_now().samples, 0);
    assert_int_equal(stint_profile_stop(), 0);
}

static void *write_in_callback(const stint_memprof_allocation *allocation, void *error)
{
    (void)allocation;
    *(int *)error = stint_profile_write(STDOUT_FILENO, STINT_PROFILE_COLLAPSED);
    return NULL;
}

TEST(beside_another_tracker_there_is_no_profile)
{
    size_t count = 1000;
    int error = 0;
    stint_options options = STINT_OPTIONS_INIT;
    stint_memprof_options memprof = STINT_MEMPROF_OPTIONS_INIT;
    memprof.interval = INTERVAL;
    memprof.tracker.alloc = write_in_callback;
    memprof.arg = &error;
    (void)state;
    assert_int_equal(stint_memprof_start(&memprof), 0);
    assert_int_equal(stint_profile_start(NULL), EBUSY);
    assert_int_equal(stint_profile_stop(), EINVAL);
    run_task(churn, &count, &options);
    assert_int_equal(error, EDEADLK);
    assert_int_equal(stint_memprof_stop(), 0);
}

TEST(the_child_of_a_fork_has_no_profile_but_can_start_one)
{
    size_t count = 20000;
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    (void)state;
    start_profile(8);
    churn(&count, NULL);
    pid_t child = fork();
    if (child == 0) {
        bool right = stint_profile_read(&totals) == EINVAL && stint_profile_stop() == EINVAL &&
                     stint_profile_start(NULL) == 0 && stint_profile_read(&totals) == 0 && totals.samples == 0 &&
                     stint_profile_stop() == 0;
        _exit(right ? 0 : 1);
    }
    assert_ends_well(child);
    assert_true(totals_now().samples > 0);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(writing_needs_its_libraries)
{
    int fd = open("/dev/null", O_WRONLY);
    (void)state;
    start_profile(11);
    assert_int_equal(stint_profile_write(fd, STINT_PROFILE_PPROF), PROFILES ? 0 : ENOTSUP);
    assert_int_equal(stint_profile_write(fd, STINT_PROFILE_COLLAPSED), PROFILES ? 0 : ENOTSUP);
    assert_int_equal(stint_profile_stop(), 0);
    close(fd);
}

static void *allocate_a_little(void *arg)
{
    for (size_t size = 16; size < 4096; size *= 2)
        stint_free(keep(stint_malloc(size)));
    return arg;
}

/* mimalloc makes this call while it starts a thread, with a lock held. */
TEST(threads_start_while_a_profile_runs)
{
    const stint_profile_options often = { .size = sizeof(stint_profile_options),
                                          .interval = 4096,
                                          .callstack_depth = 4 };
    assert_int_equal(stint_profile_start(&often), 0);
    alarm(60); /* until the test ends a hanging thread */
    for (int i = 0; i < 1000; i++) {
        pthread_t threads[2];
        for (int j = 0; j < 2; j++)
            assert_int_equal(pthread_create(&threads[j], NULL, allocate_a_little, NULL), 0);
        for (int j = 0; j < 2; j++)
            pthread_join(threads[j], NULL);
    }
    alarm(0);
    assert_int_equal(stint_profile_stop(), 0);
}

static void *leave_at_once(void *arg)
{
    return arg;
}

static void start_and_join(void *(*function)(void *arg))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

/* libc frees memory of a thread after the thread's last destructor. */
TEST(ended_threads_leave_nothing_while_a_profile_runs)
{
    const stint_profile_options often = { .size = sizeof(stint_profile_options),
                                          .interval = 4096,
                                          .callstack_depth = 4 };
    assert_int_equal(stint_profile_start(&often), 0);
    for (int i = 0; i < 100; i++)
        start_and_join(i % 2 == 0 ? leave_at_once : allocate_a_little);
    left_by_the_system(0); /* measures */
    size_t before = resident();
    for (int i = 0; i < 1000; i++)
        start_and_join(i % 2 == 0 ? leave_at_once : allocate_a_little);
    /* 75 MiB with the leavings of each. A sanitizer keeps some freed memory. */
    assert_in_range(resident(), 0,
                    before + (stint_malloc_is_overridden() ? 4 * MIB : 32 * MIB) + left_by_the_system(1000));
    assert_int_equal(stint_profile_stop(), 0);
}

TEST_MAIN()
