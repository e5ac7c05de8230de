/* SPDX-License-Identifier: MIT
 *
 * Things of a task other than memory are not the task's: a descriptor that it opened, a thread that it started. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>
#include <unistd.h>

#define LIMIT (16 * MIB)

static stint_outcome run_limited(stint_fn *fn, void *arg)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    return run_task(fn, arg, &options);
}

static int spend_budget(void)
{
    while (keep(stint_malloc(1000)) != NULL)
        ;
    return ENOMEM;
}

/* --- Descriptors --- */

static int open_and_spend(void *descriptor, void **value)
{
    (void)value;
    *(int *)descriptor = open("/dev/null", O_RDONLY);
    return spend_budget();
}

TEST(a_descriptor_stays_open_where_no_guard_closes_it)
{
    int descriptor = -1;
    assert_limit_passed(run_limited(open_and_spend, &descriptor));
    assert_true(fcntl(descriptor, F_GETFD) >= 0);
    close(descriptor);
}

static void close_it(void *descriptor)
{
    close(*(int *)descriptor);
}

static int open_with_guard_and_spend(void *descriptor, void **value)
{
    stint_guard guard;
    (void)value;
    *(int *)descriptor = open("/dev/null", O_RDONLY);
    stint_guard_push(&guard, close_it, descriptor);
    int error = spend_budget();
    stint_guard_pop(&guard, true);
    return error;
}

TEST(a_guard_closes_it)
{
    int descriptor = -1;
    assert_limit_passed(run_limited(open_with_guard_and_spend, &descriptor));
    assert_true(descriptor >= 0);
    assert_true(fcntl(descriptor, F_GETFD) < 0);
}

/* --- Threads --- */

static void *allocate_much(void *unused)
{
    (void)unused;
    return keep(stint_malloc(2 * LIMIT));
}

static int have_much_allocated(void *block, void **value)
{
    pthread_t id;
    (void)value;
    int error = pthread_create(&id, NULL, allocate_much, NULL);
    return error != 0 ? error : pthread_join(id, block);
}

TEST(what_a_thread_of_its_allocates_is_not_charged_to_the_task)
{
    void *block = NULL;
    stint_outcome outcome = run_limited(have_much_allocated, &block);
    assert_ok(outcome);
    assert_true(outcome.usage.allocated < MIB);
    assert_non_null(block);
    stint_free(block);
}

struct work {
    pthread_t id;
    atomic_bool may_go_on;
    void *block;
};

static void *wait_and_allocate(void *arg)
{
    struct work *work = arg;
    while (!atomic_load(&work->may_go_on))
        thrd_yield();
    char *block = stint_malloc(1000);
    if (block != NULL)
        memset(block, 1, 1000);
    work->block = block;
    return NULL;
}

static int start_and_spend(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    int error = pthread_create(&work->id, NULL, wait_and_allocate, work);
    return error != 0 ? error : spend_budget();
}

TEST(a_thread_goes_on_when_the_task_has_been_rolled_back)
{
    struct work work = { .block = NULL };
    assert_limit_passed(run_limited(start_and_spend, &work));
    atomic_store(&work.may_go_on, true);
    assert_int_equal(pthread_join(work.id, NULL), 0);
    assert_non_null(work.block);
    assert_int_equal(((char *)work.block)[999], 1);
    stint_free(work.block);
}

static int count(void *number)
{
    ++*(int *)number;
    return 7;
}

static int start_as_c11_has_it(void *number, void **value)
{
    thrd_t id;
    int result = 0;
    (void)value;
    if (thrd_create(&id, count, number) != thrd_success || thrd_join(id, &result) != thrd_success)
        return EAGAIN;
    return result == 7 ? 0 : EINVAL;
}

TEST(a_thread_that_is_started_as_c11_has_it_ends_with_its_result)
{
    int number = 0;
    assert_ok(run_limited(start_as_c11_has_it, &number));
    assert_int_equal(number, 1);
}

TEST_MAIN()
