/* SPDX-License-Identifier: MIT
 *
 * Threads of a task that wait, for each other or for nothing that ever comes: an interrupt of the task ends their
 * waits, and no lock stays taken. */
#include "own_threads.h"

#include <semaphore.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static mtx_t c11_mutex;
static cnd_t c11_condition;
static sem_t semaphore;
static bool never;

static void *wait_for_ever(void *how)
{
    const struct timespec late = { .tv_sec = INT32_MAX };
    switch ((uintptr_t)how % 4) {
    case 0:
        pthread_mutex_lock(&mutex);
        while (!never)
            pthread_cond_wait(&condition, &mutex);
        pthread_mutex_unlock(&mutex);
        break;
    case 1:
        pthread_mutex_lock(&mutex);
        while (!never)
            pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &late);
        pthread_mutex_unlock(&mutex);
        break;
    case 2:
        mtx_lock(&c11_mutex);
        while (!never)
            cnd_wait(&c11_condition, &c11_mutex);
        mtx_unlock(&c11_mutex);
        break;
    default:
        while (sem_wait(&semaphore) != 0)
            ;
    }
    return NULL;
}

static int wait_with_others(void *allocates, void **value)
{
    pthread_t ids[6];
    (void)value;
    for (uintptr_t i = 0; i < 6; i++) {
        if (pthread_create(&ids[i], NULL, wait_for_ever, (void *)i) != 0)
            return EAGAIN;
    }
    if (allocates != NULL)
        allocate_for_ever(NULL);
    wait_for_ever((void *)0);
    return 0;
}

static void assert_nothing_is_locked(void)
{
    assert_int_equal(pthread_mutex_trylock(&mutex), 0);
    pthread_mutex_unlock(&mutex);
    assert_int_equal(mtx_trylock(&c11_mutex), thrd_success);
    mtx_unlock(&c11_mutex);
}

TEST(an_interrupt_ends_their_waits)
{
    mtx_init(&c11_mutex, mtx_plain);
    cnd_init(&c11_condition);
    sem_init(&semaphore, 0, 0);
    for (int i = 0; i < 10; i++) {
        assert_limit_passed(run_with(wait_with_others, &never, STINT_THREADS_CHARGED));
        assert_nothing_is_locked();
        stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
        options.budget.wall_ns = 5 * MS;
        options.on_interrupt = i % 2 == 0 ? STINT_JUMP : STINT_UNWIND;
        assert_outcome(run_task(wait_with_others, NULL, &options), STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
        assert_nothing_is_locked();
    }
}

static void *set_after_a_while(void *token)
{
    usleep(2000);
    stint_token_set(token);
    return NULL;
}

TEST(so_does_a_token)
{
    for (int i = 0; i < 5; i++) {
        stint_token *token;
        pthread_t setter;
        assert_int_equal(stint_token_create(NULL, &token), 0);
        assert_int_equal(pthread_create(&setter, NULL, set_after_a_while, token), 0);
        stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
        options.token = token;
        assert_cancelled(run_task(wait_with_others, NULL, &options), STINT_REASON_TOKEN);
        pthread_join(setter, NULL);
        stint_token_release(token);
    }
}

/* Its threads come to their ends by themselves, as nobody is left by a jump. */
static void *allocate_until_refused(void *counter)
{
    while (keep(malloc(1000)) != NULL)
        ;
    pthread_mutex_lock(&mutex);
    ++*(int *)counter;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static int started;

static int wait_until_all_are_refused(void *counter, void **value)
{
    pthread_t ids[4];
    (void)value;
    started = 0;
    while (started < 4 && pthread_create(&ids[started], NULL, allocate_until_refused, counter) == 0)
        started++;
    pthread_mutex_lock(&mutex);
    while (*(int *)counter < started)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    return 0;
}

TEST(in_a_task_that_fails_by_itself_they_do_too)
{
    for (int i = 0; i < 10; i++) {
        int counter = 0;
        stint_options options = with(STINT_THREADS_CHARGED, LIMIT, 0);
        options.on_interrupt = STINT_FAIL;
        assert_limit_passed(run_task(wait_until_all_are_refused, &counter, &options));
        assert_true(started > 0);
        assert_int_equal(counter, started);
    }
}

static int start_without_end(void *unused, void **value)
{
    pthread_t id;
    (void)unused;
    (void)value;
    for (;;) {
        if (pthread_create(&id, NULL, wait_for_ever, NULL) != 0)
            return EAGAIN;
    }
}

TEST(a_task_that_starts_threads_without_end_is_stopped)
{
    stint_options options = with(STINT_THREADS_CHARGED, LIMIT / 2, 0);
    assert_limit_passed(run_task(start_without_end, NULL, &options));
    options = with(STINT_THREADS_CHARGED, 0, LIMIT / 2);
    assert_outcome(run_task(start_without_end, NULL, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
}

TEST_MAIN()
