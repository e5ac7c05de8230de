/* SPDX-License-Identifier: MIT
 *
 * Threads that tasks start: nothing to the task, the task's own, or refused. */
#include "own_threads.h"

#include <stdatomic.h>
#include <threads.h>

static void *allocate_some(void *size)
{
    return keep(malloc((size_t)size));
}

static int join_one(void *(*function)(void *), void *arg, void **value)
{
    pthread_t id;
    int error = pthread_create(&id, NULL, function, arg);
    return error != 0 ? error : pthread_join(id, value);
}

static int have_limit_passed(void *unused, void **value)
{
    (void)unused;
    return join_one(allocate_for_ever, NULL, value);
}

static int have_much_allocated(void *unused, void **value)
{
    (void)unused;
    int error = join_one(allocate_some, (void *)(2 * LIMIT), value);
    free(*value);
    *value = NULL;
    return error;
}

TEST(a_thread_is_nothing_to_the_task_unless_that_is_asked_for)
{
    stint_outcome outcome = run_with(have_much_allocated, NULL, STINT_THREADS_FREE);
    assert_ok(outcome);
    assert_true(outcome.usage.allocated < MIB);
}

static int be_c11(void *unused)
{
    (void)unused;
    return 7;
}

static int start_both(void *arg, void **value)
{
    int *error = arg;
    pthread_t id;
    thrd_t c11;
    (void)value;
    error[0] = pthread_create(&id, NULL, allocate_for_ever, NULL);
    error[1] = thrd_create(&c11, be_c11, NULL);
    return 0;
}

TEST(a_task_that_may_start_none_is_refused)
{
    int errors[2] = { 0, 0 };
    assert_ok(run_with(start_both, errors, STINT_THREADS_REFUSED));
    assert_int_equal(errors[0], EAGAIN);
    assert_int_equal(errors[1], thrd_error);
}

static int run_inside(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    return stint_run(start_both, arg, NULL, &outcome);
}

TEST(what_an_outer_task_may_not_an_inner_one_may_not_either)
{
    int errors[2] = { 0, 0 };
    assert_ok(run_with(run_inside, errors, STINT_THREADS_REFUSED));
    assert_int_equal(errors[0], EAGAIN);
    assert_int_equal(errors[1], thrd_error);
    errors[0] = 0;
    assert_ok(run_with(run_inside, errors, STINT_THREADS_CHARGED)); /* whose budget it would be is not known */
    assert_int_equal(errors[0], EAGAIN);
}

TEST(an_unknown_value_is_refused)
{
    stint_options options = with((stint_threads)(STINT_THREADS_REFUSED + 1), 0, 0);
    stint_outcome outcome;
    assert_int_equal(stint_run(do_nothing, NULL, &options, &outcome), EINVAL);
}

TEST(what_a_thread_allocates_is_charged_to_its_task)
{
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome = run_with(have_limit_passed, NULL, STINT_THREADS_CHARGED);
        assert_limit_passed(outcome);
        assert_true(outcome.usage.allocated <= LIMIT + 128 * KIB);
    }
}

static int have_four_allocate(void *unused, void **value)
{
    pthread_t ids[4];
    (void)unused;
    (void)value;
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&ids[i], NULL, allocate_for_ever, NULL) != 0)
            return EAGAIN;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    return 0;
}

TEST(what_threads_held_is_rolled_back)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, LIMIT);
    size_t before = 0;
    for (int i = 0; i < 40; i++) {
        stint_outcome outcome = run_task(have_four_allocate, NULL, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_int_equal(outcome.usage.kept, 0);
        assert_true(outcome.usage.peak <= LIMIT + MIB);
        if (i == 20)
            before = resident();
    }
    assert_in_range(resident(), 0, before + 2 * LIMIT);
}

static void *fill_after_a_while(void *arg)
{
    char **text = arg;
    usleep(20000);
    *text = strdup("made by a thread");
    return NULL;
}

static int leave_it_running(void *unused, void **value)
{
    pthread_t id;
    (void)unused;
    char **text = calloc(1, sizeof *text);
    *value = text;
    int error = pthread_create(&id, NULL, fill_after_a_while, text);
    return error != 0 ? error : pthread_detach(id);
}

TEST(a_task_does_not_end_before_its_threads_have)
{
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome = run_with(leave_it_running, NULL, STINT_THREADS_CHARGED);
        assert_ok(outcome);
        assert_true(outcome.usage.wall_ns >= 15 * MS || !stint_malloc_is_overridden());
        char **text = outcome.value;
        run_task(fill_blocks, NULL, NULL);
        assert_string_equal(*text, "made by a thread");
        free(*text);
        free(text);
    }
}

static int ends[6];

static void *exit_with(void *value)
{
    keep(malloc(100));
    pthread_exit(value);
}

static int end_in_many_ways(void *unused, void **value)
{
    void *left = NULL;
    pthread_t id;
    thrd_t c11;
    pthread_attr_t attributes;
    (void)unused;
    (void)value;
    ends[0] = join_one(exit_with, &left, &left) == 0 && left == &left;
    ends[1] = thrd_create(&c11, be_c11, NULL) == thrd_success && thrd_join(c11, &ends[5]) == thrd_success;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    ends[2] = pthread_create(&id, &attributes, exit_with, NULL) == 0 && pthread_join(id, NULL) == EINVAL;
    ends[3] =
        pthread_create(&id, NULL, exit_with, NULL) == 0 && pthread_detach(id) == 0 && pthread_detach(id) == EINVAL;
    pthread_create(&id, NULL, exit_with, ends);
    while (pthread_tryjoin_np(id, &left) == EBUSY)
        usleep(100);
    ends[4] = left == ends;
    pthread_attr_destroy(&attributes);
    return 0;
}

TEST(they_end_and_are_joined_as_ever)
{
    assert_ok(run_with(end_in_many_ways, NULL, STINT_THREADS_CHARGED));
    for (int i = 0; i < 5; i++)
        assert_true(ends[i]);
    assert_int_equal(ends[5], 7);
}

static pthread_t left_id;

static int leave_one(void *code, void **value)
{
    (void)value;
    int error = pthread_create(&left_id, NULL, exit_with, ends);
    return error != 0 ? error : *(int *)code;
}

TEST(one_that_a_task_left_can_be_joined_when_it_was_ok)
{
    int code = 0;
    void *left = NULL;
    assert_ok(run_with(leave_one, &code, STINT_THREADS_CHARGED));
    assert_int_equal(pthread_join(left_id, &left), 0);
    assert_ptr_equal(left, ends);
}

/* Each would keep the addresses of its stack. */
TEST(of_those_that_a_failed_task_left_nothing_stays)
{
    int code = EIO;
    for (int i = 0; i < 300; i++)
        assert_outcome(run_with(leave_one, &code, STINT_THREADS_CHARGED), STINT_ERROR, STINT_REASON_FAILED, EIO);
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL && sscanf(line, "VmSize: %ld", &kib) != 1)
        ;
    fclose(status);
    assert_true(kib > 0 && kib < 2L * 1024 * 1024);
}

static atomic_bool goes_on;

static void *wait_outside(void *unused)
{
    (void)unused;
    while (atomic_load(&goes_on))
        usleep(100);
    return keep(malloc(100));
}

static int start_for_the_process(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_keep_begin();
    int error = pthread_create(&left_id, NULL, wait_outside, NULL);
    stint_keep_end();
    return error;
}

TEST(one_that_is_started_in_a_keep_region_outlives_the_task)
{
    for (stint_threads threads = STINT_THREADS_CHARGED; threads <= STINT_THREADS_REFUSED; threads++) {
        void *block = NULL;
        atomic_store(&goes_on, true);
        assert_ok(run_with(start_for_the_process, NULL, threads));
        atomic_store(&goes_on, false);
        assert_int_equal(pthread_join(left_id, &block), 0);
        assert_non_null(block);
        free(block);
    }
}

static void *start_another(void *depth)
{
    if ((uintptr_t)depth == 0)
        return allocate_for_ever(NULL);
    pthread_t id;
    if (pthread_create(&id, NULL, start_another, (void *)((uintptr_t)depth - 1)) == 0 && (uintptr_t)depth % 2 == 0)
        pthread_join(id, NULL);
    return NULL;
}

static int start_a_chain(void *unused, void **value)
{
    (void)unused;
    return join_one(start_another, (void *)5, value);
}

TEST(threads_of_threads_are_the_tasks_too)
{
    for (int i = 0; i < 20; i++)
        assert_limit_passed(run_with(start_a_chain, NULL, STINT_THREADS_CHARGED));
}

/* --- In a pool --- */

TEST(tasks_of_a_pool_have_threads_of_their_own)
{
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = 3;
    stint_pool *pool;
    stint_future *futures[60];
    stint_outcome outcome;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    stint_options options = with(STINT_THREADS_CHARGED, LIMIT, 0);
    for (int i = 0; i < 60; i++)
        assert_int_equal(
            stint_submit(pool, i % 2 == 0 ? have_four_allocate : leave_it_running, NULL, &options, &futures[i]), 0);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        if (i % 2 == 0) {
            assert_limit_passed(outcome);
        } else {
            assert_ok(outcome);
            assert_string_equal(*(char **)outcome.value, "made by a thread");
            free(*(char **)outcome.value);
            free(outcome.value);
        }
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
