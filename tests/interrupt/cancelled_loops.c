/* SPDX-License-Identifier: MIT
 *
 * Preemptible tasks that only a token ends. Whoever sets it sends the first signal, and is gone: if that finds the task
 * where it cannot be left, the task has to be asked again, or turns for ever. */
#include "support.h"

#include <sched.h>
#include <stdatomic.h>

#define RUNNERS 3
#define SETTERS 2

/* --- What the tasks do. Each has something that a signal must not leave, or comes there by way of something else.
 * --- */

static _Thread_local volatile unsigned long turns;

/* ThreadSanitizer holds signals back until the thread makes a system call, and then none finds it in its own code. */
static void turn(unsigned times)
{
    for (unsigned n = 0; n < times; n++)
        turns++;
#if defined __SANITIZE_THREAD__
    sched_yield();
    stint_checkpoint();
#endif
}

static __attribute__((noreturn)) void turn_for_ever(void)
{
    for (;;)
        turn(1);
}

/* Masked where nobody sees the lock. */
static __attribute__((noreturn)) void lock_for_ever(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool is_seen = stint_malloc_is_overridden();
    for (;;) {
        if (!is_seen)
            stint_mask();
        pthread_mutex_lock(&mutex);
        turn(100);
        pthread_mutex_unlock(&mutex);
        if (!is_seen)
            stint_unmask();
        turn(20);
    }
}

static __attribute__((noreturn)) void allocate_for_ever(void)
{
    for (;;)
        stint_free(stint_malloc(100));
}

static __attribute__((noreturn)) void mask_then_turn(void)
{
    stint_mask();
    turn(2000000);
    stint_unmask();
    turn_for_ever();
}

static __attribute__((noreturn)) void sleep_for_ever(void)
{
    for (;;) {
        const struct timespec hour = { .tv_sec = 3600 };
        nanosleep(&hour, NULL);
        stint_checkpoint();
    }
}

static int turn_a_while(void *unused, void **value)
{
    (void)unused;
    (void)value;
    turn(1000);
    return 0;
}

/* Scopes that are not preemptible, opened and closed on top of one that is. */
static __attribute__((noreturn)) void run_for_ever(void)
{
    const stint_options plain = STINT_OPTIONS_INIT;
    for (;;) {
        stint_outcome inner;
        stint_run(turn_a_while, NULL, &plain, &inner);
    }
}

static __attribute__((noreturn)) void run_preemptible_for_ever(void)
{
    const stint_options inner_options = { .size = sizeof(stint_options), .preemptible = true };
    for (;;) {
        stint_outcome inner;
        stint_run(turn_a_while, NULL, &inner_options, &inner);
    }
}

static void hear(void *unused)
{
    (void)unused;
}

static __attribute__((noreturn)) void turn_with_a_hook(void)
{
    stint_hook hook;
    stint_hook_push(&hook, hear, NULL);
    turn_for_ever();
}

static void (*const ways[])(void) = {
    turn_for_ever,  lock_for_ever, allocate_for_ever,        mask_then_turn,
    sleep_for_ever, run_for_ever,  run_preemptible_for_ever, turn_with_a_hook,
};
#define WAYS (sizeof ways / sizeof *ways)

/* --- Who runs them, and who sets their tokens --- */

static _Atomic(stint_token *) to_be_set[RUNNERS];
static atomic_size_t runners_left;
static atomic_size_t others; /* outcomes that came of something else */

struct runner {
    size_t place;
    uint64_t random;
};

static int go_one_way(void *runner, void **value)
{
    (void)value;
    ways[random_below(&((struct runner *)runner)->random, WAYS)]();
    return 0;
}

/* The setter has a reference of its own, and may be early. */
static void run_one(struct runner *runner)
{
    stint_token *above;
    stint_options options = { .size = sizeof(stint_options), .preemptible = true };
    stint_token_create(NULL, &above);
    stint_token_create(above, &options.token);
    bool sets_above = random_below(&runner->random, 2) == 0;
    atomic_store(&to_be_set[runner->place], stint_token_retain(sets_above ? above : options.token));
    stint_outcome outcome = { .status = STINT_OK };
    stint_run(go_one_way, runner, &options, &outcome);
    if (outcome.reason != STINT_REASON_TOKEN)
        atomic_fetch_add(&others, 1);
    stint_token_release(options.token);
    stint_token_release(above);
}

static void *run_alone(void *runner)
{
    run_one(runner);
    return NULL;
}

/* Some on a thread that ends with its task, whose record the next one has; not where ThreadSanitizer, which does not
 * see mimalloc's own locks, takes the blocks of such a thread for those of the next. */
#if defined __SANITIZE_THREAD__
#define ENDING_ONE_IN 0
#else
#define ENDING_ONE_IN 4
#endif

static void *run_many(void *place)
{
    struct runner runner = { (size_t)(uintptr_t)place, (uintptr_t)place + 1 };
    for (unsigned i = 0; i < repeats(100); i++) {
        pthread_t thread;
        bool ends = ENDING_ONE_IN != 0 && random_below(&runner.random, ENDING_ONE_IN) == 0;
        if (ends && pthread_create(&thread, NULL, run_alone, &runner) == 0)
            pthread_join(thread, NULL);
        else
            run_one(&runner);
    }
    atomic_fetch_sub(&runners_left, 1);
    return NULL;
}

static void *set_all(void *seed)
{
    uint64_t random = (uintptr_t)seed;
    while (atomic_load(&runners_left) > 0) {
        stint_token *token = atomic_exchange(&to_be_set[random_below(&random, RUNNERS)], NULL);
        uint64_t pause = random_below(&random, 4) * random_below(&random, 30000);
        nanosleep(&(struct timespec){ .tv_nsec = (long)pause }, NULL);
        stint_token_set(token);
        stint_token_release(token);
    }
    return NULL;
}

TEST(every_task_whose_token_is_set_ends)
{
    pthread_t threads[RUNNERS + SETTERS];
    atomic_store(&runners_left, RUNNERS);
    for (uintptr_t i = 0; i < RUNNERS + SETTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < RUNNERS ? run_many : set_all, (void *)i), 0);
    for (size_t i = 0; i < RUNNERS + SETTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&others), 0);
}

/* --- Whose signal it is --- */

static atomic_bool sleeps;
static int slept; /* what nanosleep returned */

static int sleep_once(void *unused, void **value)
{
    (void)unused;
    (void)value;
    const struct timespec while_they_are_set = { .tv_nsec = 200000000 };
    atomic_store(&sleeps, true);
    slept = nanosleep(&while_they_are_set, NULL);
    atomic_store(&sleeps, false);
    return 0;
}

static void *run_sleeper(void *outcome)
{
    stint_options options = { .size = sizeof(stint_options), .preemptible = true };
    stint_token_create(NULL, &options.token);
    stint_run(sleep_once, NULL, &options, outcome);
    stint_token_release(options.token);
    return NULL;
}

TEST(the_token_of_another_task_interrupts_no_sleep)
{
    pthread_t thread;
    stint_outcome outcome;
    assert_int_equal(pthread_create(&thread, NULL, run_sleeper, &outcome), 0);
    while (!atomic_load(&sleeps))
        sched_yield();
    while (atomic_load(&sleeps)) {
        stint_token *token;
        assert_int_equal(stint_token_create(NULL, &token), 0);
        stint_token_set(token);
        stint_token_release(token);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(slept, 0);
}

/* --- One at a time. The watch sleeps meanwhile, for a second at most: each signal that were lost would take that long,
 * so many of them longer than a test may. --- */

#define SIGNALS 150

static const struct timespec until_the_watch_sleeps = { .tv_nsec = 1500000 };

static stint_token *own;

static int set_own_token_and_turn(void *unused, void **value)
{
    (void)unused;
    (void)value;
    nanosleep(&until_the_watch_sleeps, NULL);
    stint_token_set(own);
    turn_for_ever();
}

TEST(a_loop_whose_own_thread_has_set_its_token_ends)
{
    for (int i = 0; i < SIGNALS; i++) {
        stint_options options = { .size = sizeof(stint_options), .preemptible = true };
        stint_outcome outcome;
        assert_int_equal(stint_token_create(NULL, &own), 0);
        options.token = own;
        assert_int_equal(stint_run(set_own_token_and_turn, NULL, &options, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
        stint_token_release(own);
    }
}

static atomic_bool has_begun;

static int begin_this_way(void *way, void **value)
{
    (void)value;
    atomic_store(&has_begun, true);
    (*(void (*const *)(void))way)();
    return 0;
}

static void *run_this_way(void *way)
{
    stint_options options = { .size = sizeof(stint_options), .preemptible = true, .token = own };
    stint_outcome outcome;
    stint_run(begin_this_way, way, &options, &outcome);
    return (void *)(uintptr_t)outcome.reason;
}

static void cancel_what_goes(void (*const *way)(void))
{
    for (int i = 0; i < SIGNALS; i++) {
        pthread_t thread;
        void *reason;
        atomic_store(&has_begun, false);
        assert_int_equal(stint_token_create(NULL, &own), 0);
        assert_int_equal(pthread_create(&thread, NULL, run_this_way, (void *)(uintptr_t)way), 0);
        while (!atomic_load(&has_begun))
            sched_yield();
        nanosleep(&until_the_watch_sleeps, NULL);
        stint_token_set(own);
        assert_int_equal(pthread_join(thread, &reason), 0);
        assert_int_equal((uintptr_t)reason, STINT_REASON_TOKEN);
        stint_token_release(own);
    }
}

TEST(a_loop_that_could_not_be_left_at_once_ends_all_the_same)
{
    for (size_t i = 0; i < WAYS; i++)
        cancel_what_goes(&ways[i]);
}

TEST_MAIN()
