/* SPDX-License-Identifier: MIT
 *
 * A task that has waited for a semaphore which is a lock is not interrupted before it posts it; one that has waited for
 * an event is. */
#include "support.h"

#include <semaphore.h>

#define LIMIT ((size_t)16 << 10)

typedef int wait_fn(sem_t *semaphore);

static struct timespec in_a_minute(clockid_t clock)
{
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_sec += 60;
    return until;
}

static int wait_until(sem_t *semaphore)
{
    const struct timespec until = in_a_minute(CLOCK_REALTIME);
    return sem_timedwait(semaphore, &until);
}

static int wait_by_clock(sem_t *semaphore)
{
    const struct timespec until = in_a_minute(CLOCK_MONOTONIC);
    return sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);
}

static wait_fn *const waits[] = { sem_wait, sem_trywait, wait_until, wait_by_clock };

struct work {
    sem_t *semaphore;
    wait_fn *wait;
    bool reached; /* the post */
};

static int hold_and_allocate(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    if (work->wait(work->semaphore) != 0)
        return errno;
    for (size_t i = 0; i < 2 * LIMIT / 1000; i++)
        keep(malloc(1000));
    work->reached = true;
    sem_post(work->semaphore);
    for (;;)
        keep(malloc(1000));
}

static bool reaches_the_post(sem_t *semaphore, wait_fn *wait)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    struct work work = { .semaphore = semaphore, .wait = wait };
    assert_limit_passed(run_task(hold_and_allocate, &work, &options));
    return work.reached;
}

static int value_of(sem_t *semaphore)
{
    int value;
    sem_getvalue(semaphore, &value);
    return value;
}

TEST(a_semaphore_that_begins_above_zero_is_a_lock)
{
    for (unsigned begin = 1; begin <= 2; begin++) {
        sem_t semaphore;
        sem_init(&semaphore, 0, begin);
        for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
            assert_true(reaches_the_post(&semaphore, waits[i]));
            assert_int_equal(value_of(&semaphore), begin);
        }
        sem_destroy(&semaphore);
    }
}

TEST(so_is_one_with_a_name)
{
    char name[64];
    snprintf(name, sizeof name, "/stint-semaphores-%d", (int)getpid());
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    assert_true(semaphore != SEM_FAILED);
    sem_unlink(name);
    assert_true(reaches_the_post(semaphore, sem_wait));
    assert_int_equal(value_of(semaphore), 1);
    sem_close(semaphore);
}

TEST(one_that_begins_at_zero_tells_of_an_event)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 1);
    sem_destroy(&semaphore);
    sem_init(&semaphore, 0, 0); /* in the same place */
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        sem_post(&semaphore);
        assert_false(reaches_the_post(&semaphore, waits[i]));
    }
    sem_destroy(&semaphore);
}

static int post_only(void *semaphore, void **value)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)value;
    pthread_mutex_lock(&lock);
    sem_post(semaphore);
    sem_wait(semaphore);
    sem_post(semaphore);
    for (size_t i = 0; i < 2 * LIMIT / 1000; i++)
        keep(malloc(1000));
    int left = value_of(semaphore);
    pthread_mutex_unlock(&lock);
    return left == 2 ? 0 : EINVAL; /* reached, but too late */
}

TEST(to_post_one_that_is_not_held_releases_nothing_else)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    stint_outcome outcome = run_task(post_only, &semaphore, &options);
    assert_limit_passed(outcome);
    assert_true(outcome.usage.deferred > 0);
    assert_true(reaches_the_post(&semaphore, sem_wait));
    sem_destroy(&semaphore);
}

static int take_only(void *semaphore, void **value)
{
    (void)value;
    return sem_wait(semaphore);
}

/* It is nobody's that the thread would have to look after. */
TEST(one_may_be_handed_on)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 1);
    assert_ok(run_task(take_only, &semaphore, NULL));
    assert_int_equal(value_of(&semaphore), 0);
    sem_post(&semaphore);
    assert_true(reaches_the_post(&semaphore, sem_wait));
    sem_destroy(&semaphore);
}

TEST_MAIN()
