/* SPDX-License-Identifier: MIT
 *
 * Preemption: code that makes no sample points is interrupted by a signal, where the rules allow it and nowhere
 * else. */
#include "preempting.h"

#include <signal.h>
#include <stdatomic.h>

TEST(an_empty_loop_ends_at_its_deadline)
{
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_run(turn_in_a_task, NULL, &preemptible, &outcome), 0);
        assert_int_equal(outcome.status, STINT_ERROR);
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    }
}

static atomic_int started;

static int say_so_and_loop(void *unused, void **value)
{
    atomic_store(&started, 1);
    return turn_in_a_task(unused, value);
}

TEST(an_empty_loop_ends_when_its_future_is_cancelled)
{
    stint_pool *pool;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    for (int i = 0; i < 50; i++) {
        stint_options options = { .size = sizeof(stint_options), .preemptible = true };
        stint_future *future;
        stint_outcome outcome;
        atomic_store(&started, 0);
        assert_int_equal(stint_submit(pool, say_so_and_loop, NULL, &options, &future), 0);
        while (atomic_load(&started) == 0)
            sched_yield();
        stint_future_cancel(future);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.status, STINT_CANCELLED);
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int interrupted_sleeps;

static int sleep_until_interrupted(void *unused, void **value)
{
    (void)unused;
    (void)value;
    struct timespec hour = { .tv_sec = 3600 };
    while (nanosleep(&hour, NULL) != 0 && errno == EINTR) {
        interrupted_sleeps++;
        stint_checkpoint();
    }
    return 0;
}

TEST(a_blocking_system_call_returns_eintr)
{
    stint_outcome outcome;
    interrupted_sleeps = 0;
    assert_int_equal(stint_run(sleep_until_interrupted, NULL, &preemptible, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_true(interrupted_sleeps > 0);
}

/* --- Without a checkpoint in the loop: every signal finds libc --- */

static atomic_bool loop_is_over;
static atomic_int pauses_ended;

static int call_libc_until_it_is_over(void *unused, void **value)
{
    (void)unused;
    (void)value;
    while (!atomic_load(&loop_is_over)) {
        pause();
        atomic_fetch_add(&pauses_ended, 1);
    }
    return 0;
}

/* Or when the task has been left in its own code, between two pauses. */
static void *end_loop_when_pauses_have_ended(void *unused)
{
    (void)unused;
    while (atomic_load(&pauses_ended) < 5 && !atomic_load(&loop_is_over))
        usleep(1000);
    atomic_store(&loop_is_over, true);
    return NULL;
}

TEST(a_loop_that_only_sleeps_in_libc_is_woken_until_it_returns)
{
    stint_outcome outcome;
    pthread_t other;
    atomic_store(&loop_is_over, false);
    atomic_store(&pauses_ended, 0);
    assert_int_equal(pthread_create(&other, NULL, end_loop_when_pauses_have_ended, NULL), 0);
    assert_int_equal(stint_run(call_libc_until_it_is_over, NULL, &preemptible, &outcome), 0);
    atomic_store(&loop_is_over, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    assert_true(atomic_load(&pauses_ended) >= 1);
}

static volatile bool left_masked_region;

static int loop_masked_past_the_deadline(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_mask();
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 100000; i++)
            turns++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 60);
    left_masked_region = true;
    stint_unmask();
    return 0;
}

TEST(a_masked_loop_is_not_preempted)
{
    stint_outcome outcome;
    left_masked_region = false;
    assert_int_equal(stint_run(loop_masked_past_the_deadline, NULL, &preemptible, &outcome), 0);
    assert_true(left_masked_region);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noreturn)) void lock_for_ever(void)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        for (int i = 0; i < 1000; i++)
            turns++;
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < 1000; i++)
            turns++;
    }
}

static int lock_and_loop(void *unused, void **value)
{
    (void)unused;
    (void)value;
    lock_for_ever();
}

TEST(no_lock_is_left_held)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    stint_options options = preemptible;
    options.budget.wall_ns = MS;
    for (int i = 0; i < 200; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_run(lock_and_loop, NULL, &options, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
        assert_int_equal(pthread_mutex_trylock(&mutex), 0);
        assert_int_equal(pthread_mutex_unlock(&mutex), 0);
    }
}

static __attribute__((noreturn)) void allocate_and_free_for_ever(uint64_t *random)
{
    void *blocks[64] = { NULL };
    for (;;) {
        void **block = &blocks[random_below(random, 64)];
        stint_free(*block);
        *block = stint_malloc(random_below(random, 4000));
    }
}

static int allocate_and_free(void *random, void **value)
{
    (void)value;
    allocate_and_free_for_ever(random);
}

TEST(a_thread_that_is_mostly_in_the_allocator_stays_whole)
{
    uint64_t random = 1;
    stint_options options = preemptible;
    options.budget.wall_ns = MS;
    for (int i = 0; i < 300; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_run(allocate_and_free, &random, &options, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    }
}

static int released;

static void count_release(void *unused)
{
    (void)unused;
    released++;
}

static int guard_and_loop(void *unused, void **value)
{
    stint_guard guard;
    stint_guard_push(&guard, count_release, NULL);
    return turn_in_a_task(unused, value);
}

TEST(guards_run_when_a_loop_is_preempted)
{
    stint_outcome outcome;
    released = 0;
    assert_int_equal(stint_run(guard_and_loop, NULL, &preemptible, &outcome), 0);
    assert_int_equal(released, 1);
}

static int run_inner_loop(void *inner_options, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_run(turn_in_a_task, NULL, inner_options, &outcome);
    return outcome.reason == STINT_REASON_DEADLINE ? 0 : 1;
}

TEST(a_preemptible_inner_scope_ends_alone)
{
    stint_options inner = preemptible;
    stint_outcome outcome;
    assert_int_equal(stint_run(run_inner_loop, &inner, NULL, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
}

TEST(an_outer_deadline_ends_a_preemptible_inner_loop_and_the_outer_scope)
{
    stint_options inner = { .size = sizeof(stint_options), .preemptible = true };
    stint_outcome outcome;
    assert_int_equal(stint_run(run_inner_loop, &inner, &preemptible, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

static atomic_int signals_seen;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void *sleep_a_little(void *unused)
{
    (void)unused;
    struct timespec rest = { .tv_nsec = 100000000 };
    return nanosleep(&rest, NULL) == 0 ? NULL : (void *)1;
}

static int run_sleeper(void *result, void **value)
{
    (void)value;
    *(void **)result = sleep_a_little(NULL);
    return 0;
}

TEST(a_task_that_is_not_preemptible_gets_no_signal)
{
    /* Any signal would end the sleep early. */
    struct sigaction counting = { .sa_handler = count_signal };
    struct sigaction before;
    assert_int_equal(sigaction(SIGRTMAX - 2, &counting, &before), 0);
    stint_options options = { .size = sizeof(stint_options), .budget = { .wall_ns = 5 * MS } };
    stint_outcome outcome;
    void *interrupted = (void *)2;
    assert_int_equal(stint_run(run_sleeper, &interrupted, &options, &outcome), 0);
    assert_null(interrupted);
    assert_int_equal(atomic_load(&signals_seen), 0);
    assert_int_equal(sigaction(SIGRTMAX - 2, &before, NULL), 0);
}

static int let_signals_pile_up(void *unused, void **value)
{
    (void)value;
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGRTMAX - 2);
    pthread_sigmask(SIG_BLOCK, &block, NULL);
    for (int i = 0; i < 3; i++)
        sleep_a_little(unused);
    pthread_sigmask(SIG_UNBLOCK, &block, NULL);
    turn_for_ever();
}

static void *run_on_a_small_stack(void *result)
{
    stint_outcome outcome;
    if (stint_run(let_signals_pile_up, NULL, &preemptible, &outcome) == 0)
        *(stint_reason *)result = outcome.reason;
    return NULL;
}

TEST(many_signals_at_once_need_no_more_stack_than_one)
{
    pthread_attr_t small;
    pthread_t thread;
    stint_reason reason = STINT_REASON_NONE;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 * KIB), 0);
    assert_int_equal(pthread_create(&thread, &small, run_on_a_small_stack, &reason), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reason, STINT_REASON_DEADLINE);
    pthread_attr_destroy(&small);
}

TEST(the_signal_mask_is_as_before)
{
    sigset_t block, now, old;
    sigemptyset(&block);
    sigaddset(&block, SIGRTMAX - 2);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &block, &old), 0);
    stint_outcome outcome;
    assert_int_equal(stint_run(turn_in_a_task, NULL, &preemptible, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, &now), 0);
    assert_int_equal(sigismember(&now, SIGRTMAX - 2), 1);
    for (int number = 1; number < SIGRTMAX - 2; number++)
        assert_int_equal(sigismember(&now, number), sigismember(&old, number));
}

static void mask_the_signal(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX - 2);
    pthread_sigmask(how, &set, NULL);
}

static int be_deaf_then_loop(void *unused, void **value)
{
    const struct timespec rest = { .tv_nsec = 200000000 };
    mask_the_signal(SIG_BLOCK);
    nanosleep(&rest, NULL);
    mask_the_signal(SIG_UNBLOCK);
    return turn_in_a_task(unused, value);
}

static void *run_deaf(void *outcome)
{
    stint_run(be_deaf_then_loop, NULL, &preemptible, outcome);
    return NULL;
}

/* A thread that gets no processor for a while does not hear signals either. This small stack has room for a few
 * handlers on top of each other only. */
TEST(signals_do_not_pile_up_on_a_thread_that_cannot_take_them)
{
    stint_outcome outcome = { .status = STINT_OK };
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 128 * KIB), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_deaf, &outcome), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

TEST_MAIN()
