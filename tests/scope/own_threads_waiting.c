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

/* --- A time that is none: libc says so at once --- */

static int wait_until_no_time(void *unused, void **value)
{
    sem_t none;
    pthread_t id;
    (void)value;
    sem_init(&none, 0, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    time_t now = until.tv_sec;
    until = (struct timespec){ .tv_sec = now + 3600, .tv_nsec = 1000000000L };
    if (pthread_create(&id, NULL, set_after_a_while, unused) != 0)
        return EAGAIN;
    int error = sem_timedwait(&none, &until) == 0 ? 0 : errno;
    until.tv_nsec = -1;
    int other_error = sem_clockwait(&none, CLOCK_MONOTONIC, &until) == 0 ? 0 : errno;
    pthread_join(id, NULL);
    return error == EINVAL && other_error == EINVAL ? EDOM : error;
}

TEST(a_wait_for_a_semaphore_until_no_time_is_refused)
{
    stint_token *never_heard;
    assert_int_equal(stint_token_create(NULL, &never_heard), 0);
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    options.budget.wall_ns = 2000 * MS;
    stint_outcome outcome = run_task(wait_until_no_time, never_heard, &options);
    assert_int_equal(outcome.error, EDOM);
    stint_token_release(never_heard);
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

/* --- Code that an interrupt has to wait for, and that waits: it hears of all that it waits for. --- */

#define WAITS 400

static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static sem_t asked;
static int wanted; /* under the mutex, as the next one */
static int answered;

/* Not of the task. */
static void *answer(void *unused)
{
    do {
        while (sem_wait(&asked) != 0)
            ;
        pthread_mutex_lock(&mutex);
        answered = wanted;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    } while (answered < WAITS);
    return unused;
}

/* Each time the other one is about to take the mutex. False: what it did was not heard. */
static bool wait_for_answers(void)
{
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 10;
    int error = 0;
    for (int i = 1; i <= WAITS && error == 0; i++) {
        pthread_mutex_lock(&mutex);
        wanted = i;
        sem_post(&asked);
        for (int turns = 0; turns < 50; turns++)
            sched_yield();
        while (answered < i && error == 0)
            error = pthread_cond_timedwait(&condition, &mutex, &late);
        pthread_mutex_unlock(&mutex);
    }
    return error == 0;
}

struct held_up {
    bool is_masked;
    bool all_heard;
};

static int pass_the_limit_and_wait(void *arg, void **value)
{
    struct held_up *held_up = arg;
    (void)value;
    if (held_up->is_masked)
        stint_mask();
    else
        pthread_mutex_lock(&other);
    for (int i = 0; i < 300; i++)
        keep(malloc(1000));
    held_up->all_heard = wait_for_answers();
    if (held_up->is_masked)
        stint_unmask();
    else
        pthread_mutex_unlock(&other);
    return 0;
}

static void *end_at_once(void *unused)
{
    return unused;
}

static int be_held_up_inside(void *arg, void **value)
{
    pthread_t id;
    (void)value;
    if (pthread_create(&id, NULL, end_at_once, NULL) != 0 || pthread_join(id, NULL) != 0)
        return EAGAIN;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 100000;
    stint_outcome outcome = run_task(pass_the_limit_and_wait, arg, &options);
    return outcome.reason == STINT_REASON_ALLOCATION_LIMIT ? 0 : EIO;
}

static void wait_held_up(bool is_masked)
{
    struct held_up held_up = { .is_masked = is_masked };
    pthread_t answerer;
    sem_init(&asked, 0, 0);
    answered = 0;
    assert_int_equal(pthread_create(&answerer, NULL, answer, NULL), 0);
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    assert_int_equal(run_task(be_held_up_inside, &held_up, &options).status, STINT_OK);
    assert_true(held_up.all_heard);
    pthread_join(answerer, NULL);
}

TEST(masked_code_hears_of_all_that_it_waits_for)
{
    wait_held_up(true);
}

TEST(so_does_code_that_holds_another_lock)
{
    wait_held_up(false);
}

/* --- What wakes one of them for all is not lost with it
 * ------------------------------------------------------------ */

#define GIFTS 100

static pthread_cond_t gift_given = PTHREAD_COND_INITIALIZER;
static int waiting; /* under the mutex, as the next two */
static int gifts;
static bool is_over;
static sem_t taken;

static void *take_one(void *unused)
{
    pthread_mutex_lock(&mutex);
    waiting++;
    while (gifts == 0 && !is_over)
        pthread_cond_wait(&gift_given, &mutex);
    if (gifts > 0) {
        gifts--;
        sem_post(&taken);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

static int take_one_in_a_thread(void *unused, void **value)
{
    pthread_t id;
    (void)value;
    int error = pthread_create(&id, NULL, take_one, unused);
    return error != 0 ? error : pthread_join(id, NULL);
}

static void *take_one_in_a_task(void *token)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    options.token = token;
    run_task(take_one_in_a_thread, NULL, &options);
    return NULL;
}

static void await_waiting(int many)
{
    for (int seen = 0; seen < many;) {
        usleep(100);
        pthread_mutex_lock(&mutex);
        seen = waiting;
        pthread_mutex_unlock(&mutex);
    }
}

/* The task's waits first, so it is woken; and is interrupted at that moment. */
static bool give_to_two(void)
{
    pthread_t of_task;
    pthread_t other_one;
    stint_token *token;
    waiting = gifts = 0;
    is_over = false;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    assert_int_equal(pthread_create(&of_task, NULL, take_one_in_a_task, token), 0);
    await_waiting(1);
    assert_int_equal(pthread_create(&other_one, NULL, take_one, NULL), 0);
    await_waiting(2);
    stint_token_set(token);
    pthread_mutex_lock(&mutex);
    gifts = 1;
    pthread_cond_signal(&gift_given);
    pthread_mutex_unlock(&mutex);

    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 5;
    bool is_taken = sem_timedwait(&taken, &late) == 0;
    pthread_mutex_lock(&mutex);
    is_over = true;
    pthread_cond_broadcast(&gift_given);
    pthread_mutex_unlock(&mutex);
    pthread_join(other_one, NULL);
    pthread_join(of_task, NULL);
    stint_token_release(token);
    return is_taken;
}

TEST(what_wakes_one_that_is_interrupted_is_not_lost)
{
    sem_init(&taken, 0, 0);
    for (int i = 0; i < GIFTS; i++)
        assert_true(give_to_two());
}

/* --- A condition that is gone when those whom it has woken have the mutex --- */

static pthread_cond_t *brief;

static int wait_once(void *unused, void **value)
{
    pthread_t id;
    (void)value;
    if (pthread_create(&id, NULL, end_at_once, unused) != 0 || pthread_join(id, NULL) != 0)
        return EAGAIN;
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_wait(brief, &mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void *wait_once_in_a_task(void *token)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    options.token = token;
    run_task(wait_once, NULL, &options);
    return NULL;
}

TEST(a_condition_is_left_alone_once_they_are_awake)
{
    pthread_t task;
    stint_token *token;
    pthread_cond_t condition_or_not = PTHREAD_COND_INITIALIZER;
    brief = &condition_or_not;
    waiting = 0;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    assert_int_equal(pthread_create(&task, NULL, wait_once_in_a_task, token), 0);
    await_waiting(1);
    pthread_mutex_lock(&mutex);
    stint_token_set(token);
    usleep(5000); /* until it is awake */
    pthread_cond_broadcast(brief);
    pthread_cond_destroy(brief);
    memset(brief, 0xff, sizeof *brief); /* who broadcasts there now sleeps for ever */
    usleep(5000);
    pthread_mutex_unlock(&mutex);
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 5;
    assert_int_equal(pthread_timedjoin_np(task, NULL, &late), 0);
    stint_token_release(token);
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
