/* SPDX-License-Identifier: MIT
 *
 * A thread is held up at any instruction of a submission: of a delayed task that is due and finds no place, while
 * places are made; of one that follows a future, while another thread cancels it. A timer's signal holds the thread up,
 * so that it happens thousands of times a second and not only on a machine that has too much to do. */
#include <signal.h>

#include "pools.h"

#define WITHIN_NS 3000 /* what the submission does when there is no place */
#define STEP_NS 20
#define NAP_NS 50000
#define NAPS 4 /* for a worker to empty the queue in and to park */
#define ROUNDS 20000
#define LONGEST_S 1

static atomic_bool may_end;
static atomic_bool has_ended;
static unsigned most_naps;

/* sigev_notify_thread_id by its name in the kernel's header, which glibc leaves out. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* From now on places are made, or it is cancelled. */
static void hold_up(int number)
{
    int saved_errno = errno;
    (void)number;
    atomic_store(&may_end, true);
    for (unsigned naps = 0; naps < most_naps && !atomic_load(&has_ended); naps++)
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    errno = saved_errno;
}

static timer_t hold_up_this_thread(unsigned naps)
{
    most_naps = naps;
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

/* The worker is busy and the queue has no place when the fourth becomes due. True: this thread was held up before that
 * had been seen to. */
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

TEST(a_task_that_is_due_finds_its_place_wherever_its_thread_is_held_up)
{
    stint_pool *pool;
    stint_serial *serial;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    assert_int_equal(stint_serial_create(pool, 0, &serial), 0);
    timer_t timer = hold_up_this_thread(NAPS);
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

/* --- Cancelled while it is being submitted ------------------------------------------------------------------------ */

struct shared {
    stint_future *next; /* as soon as the submission has set it */
    atomic_uint round;  /* that next is of */
    atomic_bool over;
};

/* As soon as the submitter is held up, or has submitted. */
static void *cancel_each(void *arg)
{
    struct shared *shared = arg;
    for (unsigned round = 1; !atomic_load(&shared->over); round++) {
        while ((atomic_load(&shared->round) != round || !atomic_load(&may_end)) && !atomic_load(&shared->over))
            sched_yield();
        stint_future *next = __atomic_load_n(&shared->next, __ATOMIC_ACQUIRE);
        if (next != NULL)
            stint_future_cancel(next);
        atomic_store(&has_ended, true);
    }
    return NULL;
}

TEST(a_task_that_follows_a_future_is_cancelled_wherever_its_submitter_is_held_up)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct shared shared = { .next = NULL };
    pthread_t canceller;
    assert_int_equal(pthread_create(&canceller, NULL, cancel_each, &shared), 0);
    timer_t timer = hold_up_this_thread(100);
    uint64_t end = seconds() + LONGEST_S;
    long latest_ns = 10000;
    for (unsigned round = 1; round < ROUNDS && seconds() < end; round++) {
        struct gate gate = { .open = false };
        stint_future *before = submit(pool, gate_hold, &gate, NULL);
        shared.next = NULL;
        atomic_store(&may_end, false);
        atomic_store(&has_ended, false);
        atomic_store(&shared.round, round);
        set_timer(timer, latest_ns - (long)(round * 997 % WITHIN_NS));
        assert_int_equal(stint_future_then_submit(before, pool, do_nothing_next, NULL, NULL, &shared.next), 0);
        latest_ns += atomic_load(&may_end) ? STEP_NS : -STEP_NS;
        latest_ns = latest_ns > WITHIN_NS ? latest_ns : WITHIN_NS + 1;
        set_timer(timer, 0);
        atomic_store(&may_end, true);
        while (!atomic_load(&has_ended))
            sched_yield();
        gate_open(&gate);
        stint_future_cancel(shared.next);
        take_in_time(shared.next);
        take_in_time(before);
    }
    atomic_store(&shared.over, true);
    pthread_join(canceller, NULL);
    timer_delete(timer);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
