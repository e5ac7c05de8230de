/* SPDX-License-Identifier: MIT
 *
 * Ids of threads that a task has started, which other threads get as soon as they can: libc's while the one who joins
 * may not know yet that it has, and the system's while the task still runs. */
#include "own_threads.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>

struct sti_joined;
void __real_sti_joined_end_join(struct sti_joined *joined, bool is_joined);
void __wrap_sti_joined_end_join(struct sti_joined *joined, bool is_joined);

static void *nothing_to_do(void *unused)
{
    return unused;
}

/* --- libc's ------------------------------------------------------------------------------------------------------- */

static pthread_t first;
static sem_t is_joined;
static sem_t goes_on;
static sem_t is_detached_by_now;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

static atomic_int detached_id;

static void *wait_to_go_on(void *unused)
{
    await(&is_detached_by_now);
    detached_id = gettid();
    return unused;
}

/* Its stack, and with it libc's id, is free for the next thread then. */
static void await_end(atomic_int *id)
{
    while (*id == 0 || tgkill(getpid(), *id, 0) == 0)
        usleep(100);
}

/* The thread has been joined, and the one that has done it is held up. */
static void start_another(void *(*function)(void *arg), pthread_t *id)
{
    assert_int_equal(pthread_create(id, NULL, function, NULL), 0);
    assert_true(pthread_equal(*id, first));
}

static void (*meanwhile)(void);

void __wrap_sti_joined_end_join(struct sti_joined *joined, bool joins)
{
    void (*function)(void) = meanwhile;
    meanwhile = NULL;
    if (function != NULL)
        function();
    __real_sti_joined_end_join(joined, joins);
}

static int join_one(void *unused, void **value)
{
    (void)value;
    int error = pthread_create(&first, NULL, nothing_to_do, unused);
    return error != 0 ? error : pthread_join(first, NULL);
}

static void hold_up(void)
{
    sem_post(&is_joined);
    await(&goes_on);
}

static void *run_join_one(void *unused)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    return (void *)(uintptr_t)(run_task(join_one, unused, &options).status != STINT_OK);
}

static void run_held_up(pthread_t *task)
{
    sem_init(&is_joined, 0, 0);
    sem_init(&goes_on, 0, 0);
    meanwhile = hold_up;
    assert_int_equal(pthread_create(task, NULL, run_join_one, NULL), 0);
    await(&is_joined);
}

static void end_held_up(pthread_t task)
{
    void *failed;
    sem_post(&goes_on);
    assert_int_equal(pthread_join(task, &failed), 0);
    assert_null(failed);
}

TEST(a_thread_with_the_id_of_one_that_was_just_joined_can_be_joined)
{
    pthread_t task;
    pthread_t other;
    run_held_up(&task);
    start_another(nothing_to_do, &other);
    assert_int_equal(pthread_join(other, NULL), 0);
    end_held_up(task);
}

static bool is_detached(pthread_t id)
{
    pthread_attr_t attributes;
    int state = -1;
    assert_int_equal(pthread_getattr_np(id, &attributes), 0);
    pthread_attr_getdetachstate(&attributes, &state);
    pthread_attr_destroy(&attributes);
    return state == PTHREAD_CREATE_DETACHED;
}

static bool has_detached_itself;

static void *detach_itself(void *unused)
{
    has_detached_itself = pthread_detach(pthread_self()) == 0 && is_detached(pthread_self());
    sem_post(&is_joined);
    return unused;
}

TEST(it_can_be_detached)
{
    pthread_t task;
    pthread_t other;
    sem_init(&is_detached_by_now, 0, 0);
    run_held_up(&task);
    start_another(wait_to_go_on, &other);
    assert_int_equal(pthread_detach(other), 0);
    assert_true(is_detached(other));
    sem_post(&is_detached_by_now);
    await_end(&detached_id);
    end_held_up(task);
}

TEST(and_it_can_detach_itself)
{
    pthread_t task;
    pthread_t other;
    run_held_up(&task);
    start_another(detach_itself, &other);
    await(&is_joined);
    assert_true(has_detached_itself);
    end_held_up(task);
}

/* --- The system's, where the test may choose it ------------------------------------------------------------------- */

static atomic_int id_of_first;
static atomic_int id_of_other;
static pthread_t other_thread;
static atomic_bool task_is_over;
static bool task_was_over;

static void *say_id(void *unused)
{
    id_of_first = gettid();
    return unused;
}

/* No longer than it takes. */
static void *stay_until_it_is_over(void *unused)
{
    id_of_other = gettid();
    for (int i = 0; i < 2000 && !atomic_load(&task_is_over) && gettid() == id_of_first; i++)
        usleep(1000);
    task_was_over = task_is_over;
    return unused;
}

static bool set_next_id(int id)
{
    int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    char text[20];
    int length = snprintf(text, sizeof text, "%d", id - 1);
    bool is_set = last >= 0 && write(last, text, (size_t)length) == length;
    if (last >= 0)
        close(last);
    return is_set;
}

/* Other processes take some, too. */
static void *start_one_with_the_id(void *has_it)
{
    for (int i = 0; i < 100 && set_next_id(id_of_first); i++) {
        id_of_other = 0;
        if (pthread_create(&other_thread, NULL, stay_until_it_is_over, NULL) != 0)
            break;
        while (id_of_other == 0)
            usleep(100);
        *(bool *)has_it = id_of_other == id_of_first;
        if (*(bool *)has_it)
            break;
        pthread_join(other_thread, NULL);
    }
    return NULL;
}

static sem_t has_ended;
static sem_t another_has_begun;

static int leave_one_unjoined(void *unused, void **value)
{
    (void)value;
    int error = pthread_create(&first, NULL, say_id, unused);
    if (error == 0)
        await_end(&id_of_first);
    sem_post(&has_ended);
    await(&another_has_begun);
    return error;
}

static void *run_leave_one_unjoined(void *unused)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
    bool is_good = run_task(leave_one_unjoined, unused, &options).status == STINT_OK;
    atomic_store(&task_is_over, true);
    return (void *)(uintptr_t)!is_good;
}

TEST(the_end_of_the_task_does_not_wait_for_another_thread_with_the_id_of_one_of_its)
{
    pthread_t task;
    void *failed;
    bool has_it = false;
    sem_init(&has_ended, 0, 0);
    sem_init(&another_has_begun, 0, 0);
    assert_int_equal(pthread_create(&task, NULL, run_leave_one_unjoined, NULL), 0);
    await(&has_ended);
    start_one_with_the_id(&has_it);
    sem_post(&another_has_begun);
    assert_int_equal(pthread_join(task, &failed), 0);
    assert_null(failed);
    assert_int_equal(pthread_join(first, NULL), 0);
    if (!has_it)
        skip();
    assert_int_equal(pthread_join(other_thread, NULL), 0);
    assert_true(task_was_over);
}

TEST_MAIN()
