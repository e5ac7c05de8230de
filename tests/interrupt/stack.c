/* SPDX-License-Identifier: MIT
 *
 * Tasks that recurse for ever end with an Error, wherever their stack comes to its end, and the thread goes on: a
 * worker, the first thread, and threads of the program's own. */
#include "recursing.h"

#include <signal.h>
#include <sys/time.h>

static __attribute__((noinline)) int recurse_and_allocate(int depth)
{
    void *volatile block = stint_malloc(16);
    int sum = never ? depth : recurse_and_allocate(depth + 1) + depth;
    stint_free(block);
    return sum;
}

static int allocate_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse_and_allocate(0) > 0 ? EIO : EINVAL;
}

/* Its stack ends in libc as a rule. */
static __attribute__((noinline)) int recurse_through_libc(int depth)
{
    char text[64];
    snprintf(text, sizeof text, "%f %d", depth / 3.0, depth);
    return never ? depth : recurse_through_libc(depth + 1) + text[0];
}

static int print_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse_through_libc(0) > 0 ? EIO : EINVAL;
}

/* Frames that jump over what is left. */
static __attribute__((noinline)) int recurse_in_leaps(int depth)
{
    volatile char room[200000];
    room[0] = (char)depth;
    return never ? room[0] : recurse_in_leaps(depth + 1) + room[0];
}

static int leap_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse_in_leaps(0) > 0 ? EIO : EINVAL;
}

static const struct bomb {
    const char *name;
    stint_fn *function;
} bombs[] = {
    { "no allocation", recurse_for_ever },
    { "allocations", allocate_for_ever },
    { "libc", print_for_ever },
    { "leaps", leap_for_ever },
};
#define BOMBS (sizeof bombs / sizeof *bombs)

static void assert_stack(const struct bomb *bomb, const stint_outcome *outcome)
{
    if (outcome->status != STINT_ERROR || outcome->reason != STINT_REASON_STACK || outcome->error != ENOMEM)
        print_error("%s: %s, %s\n", bomb->name, stint_status_name(outcome->status), stint_reason_name(outcome->reason));
    assert_int_equal(outcome->status, STINT_ERROR);
    assert_int_equal(outcome->reason, STINT_REASON_STACK);
    assert_int_equal(outcome->error, ENOMEM);
}

/* The last one's frames are too large for a small stack of the program's own, whose guard they pass by. */
static void run_bombs(size_t count)
{
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < count; j++) {
            stint_outcome outcome = run_task(bombs[j].function, NULL, NULL);
            assert_stack(&bombs[j], &outcome);
        }
    }
}

TEST(a_recursion_on_the_first_thread_ends)
{
    run_bombs(BOMBS);
}

static void *run_bombs_on_thread(void *count)
{
    run_bombs(*(const size_t *)count);
    return NULL;
}

static void run_on_thread(void *(*function)(void *), void *arg, size_t stack_size)
{
    pthread_t thread;
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    if (stack_size != 0)
        assert_int_equal(pthread_attr_setstacksize(&attributes, stack_size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, function, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

TEST(a_recursion_on_a_thread_of_the_programs_own_ends)
{
    size_t all = BOMBS;
    size_t small = BOMBS - 1;
    run_on_thread(run_bombs_on_thread, &all, 0);
    run_on_thread(run_bombs_on_thread, &all, 4 * MIB);
    run_on_thread(run_bombs_on_thread, &small, MIB);
    run_on_thread(run_bombs_on_thread, &small, 64 * KIB);
    run_on_thread(run_bombs_on_thread, &small, 48 * KIB); /* of which three pages are the reserve */
}

static void bomb_pool(stint_pool *pool, int times)
{
    for (int i = 0; i < times; i++) {
        for (size_t j = 0; j < BOMBS; j++) {
            stint_future *future;
            stint_outcome outcome;
            assert_int_equal(stint_submit(pool, bombs[j].function, NULL, NULL, &future), 0);
            assert_int_equal(stint_future_wait(future, &outcome), 0);
            assert_stack(&bombs[j], &outcome);
            stint_future_release(future);
        }
    }
}

TEST(a_recursion_on_a_worker_ends)
{
    static const size_t sizes[] = { 0, 64 * KIB, 1000001, 10 * MIB };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stint_pool *pool;
        stint_pool_options options = STINT_POOL_OPTIONS_INIT;
        options.workers = 2;
        options.stack_size = sizes[i];
        assert_int_equal(stint_pool_create(&options, &pool), 0);
        bomb_pool(pool, sizes[i] == 64 * KIB ? 50 : 1);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

TEST(a_stack_that_is_too_small_is_refused)
{
    static const size_t sizes[] = { 1, 4 * KIB, 16 * KIB - 1, 64 * KIB - 1, SIZE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stint_pool *pool;
        stint_pool_options options = STINT_POOL_OPTIONS_INIT;
        options.stack_size = sizes[i];
        assert_int_equal(stint_pool_create(&options, &pool), EINVAL);
    }
}

struct blocked {
    int pipe[2];
};

static int read_blocking(void *arg, void **value)
{
    const struct blocked *blocked = arg;
    char byte;
    (void)value;
    stint_blocking_begin();
    ssize_t count = read(blocked->pipe[0], &byte, 1);
    stint_blocking_end();
    return count == 1 ? 0 : EIO;
}

TEST(a_recursion_on_a_substitute_ends)
{
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    struct blocked blocked;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 1;
    options.stack_size = MIB;
    assert_int_equal(pipe(blocked.pipe), 0);
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    assert_int_equal(stint_submit(pool, read_blocking, &blocked, NULL, &future), 0);
    bomb_pool(pool, 10);
    assert_int_equal(write(blocked.pipe[1], "", 1), 1);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    close(blocked.pipe[0]);
    close(blocked.pipe[1]);
}

static int released;

static void release(void *arg)
{
    char text[1000];
    snprintf(text, sizeof text, "%p %d", arg, released); /* needs some stack itself */
    released = released * 10 + *(const int *)arg;
}

static __attribute__((noinline)) int recurse_with_guard(void)
{
    static int two = 2;
    STINT_GUARD(release, &two);
    return recurse(0);
}

static int recurse_with_guards(void *arg, void **value)
{
    static int one = 1;
    (void)arg;
    (void)value;
    STINT_GUARD(release, &one);
    return recurse_with_guard();
}

TEST(guards_run_newest_first)
{
    for (int i = 0; i < 10; i++) {
        released = 0;
        stint_outcome outcome = run_task(recurse_with_guards, NULL, NULL);
        assert_int_equal(outcome.reason, STINT_REASON_STACK);
        assert_int_equal(released, 21);
    }
}

static int go_on_after_inner_ones(void *arg, void **value)
{
    int *failed = arg;
    for (size_t i = 0; i < 10; i++) {
        stint_outcome inner;
        int error = stint_run(bombs[i % BOMBS].function, NULL, NULL, &inner);
        *failed += error == 0 && inner.status == STINT_ERROR && inner.reason == STINT_REASON_STACK;
    }
    *value = stint_malloc(10);
    return 0;
}

TEST(an_inner_scope_that_recurses_leaves_the_outer_one_whole)
{
    int failed = 0;
    stint_outcome outcome = run_task(go_on_after_inner_ones, &failed, NULL);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(failed, 10);
    stint_free(outcome.value);
}

/* Each level in a scope of its own: then the whole of it has used up the stack. */
static int recurse_in_scopes(void *arg, void **value)
{
    stint_outcome inner;
    (void)value;
    ++*(int *)arg;
    return stint_run(recurse_in_scopes, arg, NULL, &inner);
}

TEST(a_recursion_through_scopes_ends)
{
    int depth = 0;
    stint_outcome outcome = run_task(recurse_in_scopes, &depth, NULL);
    assert_true(depth > 100);
    assert_true(outcome.status != STINT_CANCELLED);
}

static int then_recurse(void *arg, void **value)
{
    go_on_after_inner_ones(arg, value);
    return recurse(0);
}

TEST(the_outer_scope_is_bounded_after_an_inner_one_was)
{
    int failed = 0;
    stint_outcome outcome = run_task(then_recurse, &failed, NULL);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
    assert_int_equal(failed, 10);
}

/* But for the last one: see run_bombs. */
static void *run_in_all_ways(void *unused)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    for (size_t i = 0; i < 3; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = ways[i];
        for (size_t j = 0; j < BOMBS - 1; j++) {
            stint_outcome outcome = run_task(bombs[j].function, NULL, &options);
            assert_stack(&bombs[j], &outcome);
        }
        options.preemptible = true;
        options.budget.wall_ns = 60000 * MS;
        for (size_t j = 0; j < BOMBS - 1; j++) {
            stint_outcome outcome = run_task(bombs[j].function, NULL, &options);
            assert_stack(&bombs[j], &outcome);
        }
    }
    return unused;
}

TEST(the_ways_of_an_interrupt_are_all_the_same_to_it)
{
    run_on_thread(run_in_all_ways, NULL, MIB);
}

/* Once the function has said that it ends well, there is room, and no interrupt. */
static __attribute__((noinline)) int recurse_to(uintptr_t end, volatile int depth)
{
    volatile char room[1000];
    room[0] = 1;
    return (uintptr_t)room > end ? recurse_to(end, depth + 1) + room[0] : depth;
}

static uintptr_t lowest_of_thread(void)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0)
        pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return (uintptr_t)lowest;
}

static void *use_all_outside(void *result)
{
    stint_outcome outcome;
    int *good = result;
    uintptr_t end = lowest_of_thread() + 10 * KIB;
    for (size_t i = 0; i < 4; i++) {
        *good += stint_run(bombs[i % (BOMBS - 1)].function, NULL, NULL, &outcome) == 0 &&
                 outcome.reason == STINT_REASON_STACK && recurse_to(end, 0) > 0;
    }
    return NULL;
}

TEST(outside_of_scopes_a_thread_of_the_programs_own_has_all_of_its_stack)
{
    static const size_t sizes[] = { 64 * KIB, MIB, 8 * MIB };
    for (size_t i = 0; i < 3; i++) {
        int good = 0;
        run_on_thread(use_all_outside, &good, sizes[i]);
        assert_int_equal(good, 4);
    }
}

static int use_all_outside_of_main(void)
{
    int good = 0;
    uintptr_t end = lowest_of_thread() + 32 * KIB;
    stint_outcome outcome;
    for (size_t i = 0; i < BOMBS; i++) {
        good += stint_run(bombs[i].function, NULL, NULL, &outcome) == 0 && outcome.reason == STINT_REASON_STACK &&
                recurse_to(end, 0) > 0;
    }
    return good;
}

TEST(and_so_has_the_first_thread)
{
    assert_int_equal(use_all_outside_of_main(), BOMBS);
}

static void *run_one(void *arg)
{
    stint_outcome outcome;
    (void)arg;
    stint_run(do_nothing, NULL, NULL, &outcome);
    return NULL;
}

static void *use_all_without_scopes(void *arg)
{
    *(int *)arg = recurse_to(lowest_of_thread() + 10 * KIB, 0);
    return NULL;
}

TEST(a_stack_that_libc_uses_again_is_as_it_was)
{
    for (int i = 0; i < 10; i++) {
        int depth = 0;
        run_on_thread(run_one, NULL, MIB);
        run_on_thread(use_all_without_scopes, &depth, MIB);
        assert_true(depth > 0);
    }
}

TEST(what_a_task_used_of_a_workers_stack_is_given_back_when_that_is_idle)
{
    stint_pool *pool;
    stint_future *future;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 1;
    options.stack_size = 64 * MIB;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    assert_int_equal(stint_submit(pool, leap_for_ever, NULL, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    assert_int_equal(stint_submit(pool, recurse_for_ever, NULL, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    size_t used = resident();
    struct timespec nap = { .tv_nsec = 20000000 };
    for (int i = 0; i < 500 && resident() + 56 * MIB > used; i++)
        nanosleep(&nap, NULL);
    assert_true(resident() + 56 * MIB <= used);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    volatile char room[500];
    room[0] = (char)number;
    ticks += room[0] != 0;
}

/* Their frames are where the stack has its end, too: put there by the kernel, or by the handler itself. */
TEST(signals_may_come_while_a_stack_ends)
{
    const struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
    struct sigaction before;
    const struct itimerval often = { { .tv_usec = 100 }, { .tv_usec = 100 } };
    const struct itimerval never_again = { { 0, 0 }, { 0, 0 } };
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; i < repeats(25); i++) {
        stint_outcome outcome = run_task(recurse_for_ever, NULL, NULL);
        assert_stack(&bombs[0], &outcome);
        outcome = run_task(leap_for_ever, NULL, NULL);
        assert_stack(&bombs[BOMBS - 1], &outcome);
    }
    setitimer(ITIMER_REAL, &never_again, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(ticks > 0);
}

TEST_MAIN()
