/* SPDX-License-Identifier: MIT
 *
 * A delayed task that is due stands in line for a place while the thread that put it there is held up at any instruction:
 * whoever makes a place finds it. A timer's signal holds the thread up, so that it happens thousands of times a second and
 * not only on a machine that has too much to do. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "pools.h"

#define WITHIN_NS 3000 /* what the submission does when there is no place */
#define STEP_NS 20
#define HELD_UP_NS 200000 /* for a worker to empty the queue in and to park */
#define ROUNDS 20000
#define LONGEST_S 2

static atomic_bool may_end;

/* sigev_notify_thread_id by its name in the kernel's header, which glibc leaves out. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* From now on places are made. */
static void hold_up(int number)
{
    int saved_errno = errno;
    (void)number;
    atomic_store(&may_end, true);
    nanosleep(&(struct timespec){ .tv_nsec = HELD_UP_NS }, NULL);
    errno = saved_errno;
}

static timer_t hold_up_this_thread(void)
{
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
    struct sigaction action = { .sa_handler = hold_up, .sa_flags = SA_RESTART };
    event.sigev_notify_thread_id = gettid();
    assert_int_equal(sigaction(SIGRTMIN, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    return timer;
}

static void set_timer(timer_t timer, long after_ns)
{
    const struct itimerspec time = { .it_value = { .tv_nsec = after_ns } };
    assert_int_equal(timer_settime(timer, 0, &time, NULL), 0);
}

static uint64_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

static int keep_worker(void *begun, void **value)
{
    (void)value;
    atomic_store((atomic_bool *)begun, true);
    while (!atomic_load(&may_end))
        ;
    return 0;
}

/* The worker is busy and the queue has no place when the fourth becomes due. True: this thread was held up before that had
 * been seen to. */
static bool submit_four(stint_pool *pool, stint_serial *serial, timer_t timer, long after_ns, stint_future *futures[4])
{
    atomic_bool begun = false;
    atomic_store(&may_end, false);
    assert_int_equal(stint_submit(pool, keep_worker, &begun, NULL, &futures[0]), 0);
    while (!atomic_load(&begun))
        sched_yield();
    for (int i = 1; i < 3; i++)
        assert_int_equal(stint_submit(pool, do_nothing, NULL, NULL, &futures[i]), 0);
    set_timer(timer, after_ns);
    assert_int_equal(stint_serial_submit(serial, do_nothing, NULL, NULL, &futures[3]), 0);
    bool held_up = atomic_load(&may_end);
    set_timer(timer, 0);
    atomic_store(&may_end, true);
    return held_up;
}

static void a_task_that_is_due_finds_its_place_wherever_its_thread_is_held_up(void **state)
{
    (void)state;
    stint_pool *pool;
    stint_serial *serial;
    const stint_pool_options options = { .workers = 1, .queue_capacity = 2 };
    assert_int_equal(stint_pool_create(&pool, &options), 0);
    assert_int_equal(stint_serial_create(&serial, pool, 0), 0);
    timer_t timer = hold_up_this_thread();
    uint64_t end = seconds() + LONGEST_S;
    long latest_ns = 10000; /* follows how long it takes from setting the timer to the submission's end */
    for (unsigned round = 0; round < ROUNDS && seconds() < end; round++) {
        stint_future *futures[4];
        long after_ns = latest_ns - (long)(round * 997 % WITHIN_NS);
        bool held_up = submit_four(pool, serial, timer, after_ns > 0 ? after_ns : 1, futures);
        latest_ns += held_up ? STEP_NS : -STEP_NS;
        assert_int_equal(stint_future_wait_for(futures[3], 10000 * MS, NULL), 0);
        for (int i = 0; i < 4; i++)
            stint_future_release(futures[i]);
    }
    timer_delete(timer);
    stint_serial_release(serial);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_is_due_finds_its_place_wherever_its_thread_is_held_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
