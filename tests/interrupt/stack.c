/* SPDX-License-Identifier: MIT
 *
 * Tasks of a pool that recurse for ever: where they may be left, they end with an Error, and their worker goes on. */
#include "recursing.h"

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

/* A pure function of libc's has the deepest frame. */
static __attribute__((noinline)) int recurse_and_copy(int depth)
{
    char text[2000];
    char other[2000];
    memset(text, depth, sizeof text);
    memcpy(keep(other), keep(text), sizeof other);
    return never ? depth : recurse_and_copy(depth + 1) + other[3];
}

static int copy_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse_and_copy(0) > 0 ? EIO : EINVAL;
}

static const struct bomb {
    const char *name;
    stint_fn *function;
} bombs[] = {
    { "no allocation", recurse_for_ever },
    { "allocations", allocate_for_ever },
    { "copies", copy_for_ever },
};
#define BOMBS (sizeof bombs / sizeof *bombs)

static void assert_stack(const char *name, const stint_outcome *outcome)
{
    if (outcome->status != STINT_ERROR || outcome->reason != STINT_REASON_STACK || outcome->error != ENOMEM)
        print_error("%s: %s, %s\n", name, stint_status_name(outcome->status), stint_reason_name(outcome->reason));
    assert_int_equal(outcome->status, STINT_ERROR);
    assert_int_equal(outcome->reason, STINT_REASON_STACK);
    assert_int_equal(outcome->error, ENOMEM);
}

static stint_pool *make_one(size_t stack_size)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 1;
    options.stack_size = stack_size;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    return pool;
}

static stint_outcome run_in(stint_pool *pool, stint_fn *function, void *arg, const stint_options *options)
{
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, function, arg, options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

static void bomb_pool(stint_pool *pool, int times)
{
    for (int i = 0; i < times; i++) {
        for (size_t j = 0; j < BOMBS; j++) {
            stint_outcome outcome = run_in(pool, bombs[j].function, NULL, NULL);
            assert_stack(bombs[j].name, &outcome);
        }
    }
}

static int recurse_masked(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    return recurse(0);
}

/* First of all: only the child of a process with one thread may make a pool. */
TEST(a_fault_where_a_task_may_not_be_left_is_the_programs)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's */
        run_in(make_one(MIB), recurse_masked, NULL, NULL);
        _exit(100);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

TEST(a_recursion_on_a_worker_ends)
{
    const size_t smallest = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    const size_t sizes[] = { 0, smallest > 64 * KIB ? smallest : 64 * KIB, 1000001, 10 * MIB };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stint_pool *pool = make_one(sizes[i]);
        bomb_pool(pool, i == 1 ? 50 : 1);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

static __attribute__((noinline)) uintptr_t go_down_to(uintptr_t end)
{
    volatile char room[1000];
    uintptr_t here = (uintptr_t)room;
    room[0] = 1;
    return here > end ? go_down_to(end) + (room[0] == 0) : here;
}

static int use_what_was_asked_for(void *size, void **value)
{
    (void)value;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return go_down_to(here - *(const size_t *)size) < here ? 0 : EINVAL;
}

TEST(a_task_may_use_nearly_all_of_the_stack_that_was_asked_for)
{
    stint_pool *pool = make_one(MIB);
    size_t size = MIB - 32 * KIB;
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome = run_in(pool, use_what_was_asked_for, &size, NULL);
        assert_int_equal(outcome.status, STINT_OK);
        bomb_pool(pool, 1);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
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

static int read_blocking(void *arg, void **value)
{
    const int *pipe_ends = arg;
    char byte;
    (void)value;
    stint_blocking_begin();
    ssize_t count = read(pipe_ends[0], &byte, 1);
    stint_blocking_end();
    return count == 1 ? 0 : EIO;
}

TEST(a_recursion_on_a_substitute_ends)
{
    stint_pool *pool = make_one(MIB);
    stint_future *future;
    stint_outcome outcome;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(stint_submit(pool, read_blocking, pipe_ends, NULL, &future), 0);
    bomb_pool(pool, 10);
    assert_int_equal(write(pipe_ends[1], "", 1), 1);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
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
    stint_pool *pool = make_one(0);
    for (int i = 0; i < 10; i++) {
        released = 0;
        stint_outcome outcome = run_in(pool, recurse_with_guards, NULL, NULL);
        assert_stack("guards", &outcome);
        assert_int_equal(released, 21);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int go_on_after_inner_ones(void *arg, void **value)
{
    int *failed = arg;
    for (size_t i = 0; i < 9; i++) {
        stint_outcome inner;
        int error = stint_run(bombs[i % BOMBS].function, NULL, NULL, &inner);
        *failed += error == 0 && inner.status == STINT_ERROR && inner.reason == STINT_REASON_STACK;
    }
    *value = stint_malloc(10);
    return 0;
}

static int then_recurse(void *arg, void **value)
{
    go_on_after_inner_ones(arg, value);
    return recurse(0);
}

TEST(an_inner_scope_that_recurses_leaves_the_outer_one_whole)
{
    stint_pool *pool = make_one(0);
    int failed = 0;
    stint_outcome outcome = run_in(pool, go_on_after_inner_ones, &failed, NULL);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(failed, 9);
    stint_free(outcome.value);
    outcome = run_in(pool, then_recurse, &failed, NULL);
    assert_stack("the outer one", &outcome);
    assert_int_equal(failed, 18);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Each level in a scope of its own: the half of them that has used up the stack ends. */
static int recurse_in_scopes(void *arg, void **value)
{
    stint_outcome inner;
    (void)value;
    ++*(int *)arg;
    stint_free(keep(stint_malloc(16)));
    return stint_run(recurse_in_scopes, arg, NULL, &inner);
}

TEST(a_recursion_through_scopes_ends)
{
    stint_pool *pool = make_one(MIB);
    int depth = 0;
    stint_outcome outcome = run_in(pool, recurse_in_scopes, &depth, NULL);
    assert_true(depth > 100);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Recursions through functions of the library's, in which nothing else allocates. Most of the stack is the library's
 * frames then, and how they lie against the end of the stack depends on the padding. */
static volatile size_t padding;

static int pad_and_run(void *arg, void **value)
{
    volatile char *room = __builtin_alloca(padding);
    stint_outcome inner;
    (void)value;
    room[0] = 1;
    return stint_run(pad_and_run, arg, NULL, &inner) + room[0];
}

static int pad_and_loop(size_t begin, size_t end, void *arg)
{
    volatile char *room = __builtin_alloca(padding);
    room[0] = 1;
    return stint_for(begin, end, 1, pad_and_loop, arg) + room[0];
}

static int loop_without_end(void *arg, void **value)
{
    (void)value;
    return pad_and_loop(0, 1, arg);
}

static int pad_and_reduce(size_t begin, size_t end, void *accumulator, void *arg)
{
    const stint_reduction *reduction = arg;
    volatile char *room = __builtin_alloca(padding);
    room[0] = 1;
    return stint_reduce(begin, end, 1, reduction, arg, accumulator) + room[0];
}

static void combine_nothing(void *accumulator, const void *behind, void *arg)
{
    (void)accumulator;
    (void)behind;
    (void)arg;
}

static int reduce_without_end(void *arg, void **value)
{
    stint_reduction reduction = { .size = 8, .accumulate = pad_and_reduce, .combine = combine_nothing };
    char accumulator[8];
    (void)arg;
    (void)value;
    return pad_and_reduce(0, 1, accumulator, &reduction);
}

static int pad_and_sort(const void *a, const void *b, void *arg)
{
    volatile char *room = __builtin_alloca(padding);
    int numbers[40] = { 0 };
    (void)a;
    (void)b;
    room[0] = 1;
    return stint_sort(numbers, 40, sizeof numbers[0], pad_and_sort, arg) + room[0];
}

static int sort_without_end(void *arg, void **value)
{
    (void)value;
    return pad_and_sort(NULL, NULL, arg);
}

TEST(a_recursion_through_the_librarys_own_functions_ends)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    stint_pool *pool = make_one(256 * KIB);
    for (size_t i = 0; i < 3 * 40; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = ways[i % 3];
        padding = 16 + i / 3 * 16;
        stint_outcome outcome = run_in(pool, loop_without_end, NULL, &options);
        assert_stack("a loop", &outcome);
        outcome = run_in(pool, reduce_without_end, NULL, &options);
        assert_stack("a reduction", &outcome);
        outcome = run_in(pool, sort_without_end, NULL, &options);
        assert_stack("a sort", &outcome);
        outcome = run_in(pool, pad_and_run, NULL, &options);
        assert_int_equal(outcome.reason, STINT_REASON_FAILED); /* a scope further in had used up the stack */
        assert_int_equal(outcome.error, 1);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_ways_of_an_interrupt_are_all_the_same_to_it)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    stint_pool *pool = make_one(MIB);
    for (size_t i = 0; i < 3 * BOMBS; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = ways[i / BOMBS];
        stint_outcome outcome = run_in(pool, bombs[i % BOMBS].function, NULL, &options);
        assert_stack(bombs[i % BOMBS].name, &outcome);
        options.preemptible = true;
        options.budget.wall_ns = 60000 * MS;
        outcome = run_in(pool, bombs[i % BOMBS].function, NULL, &options);
        assert_stack(bombs[i % BOMBS].name, &outcome);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Where a task may not be left --------------------------------------------------------------------------------- */

static int go_too_deep(void *size, void **value)
{
    (void)value;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    stint_mask();
    uintptr_t deepest = go_down_to(here - *(const size_t *)size);
    stint_unmask();
    return deepest != 0 ? EIO : 0;
}

TEST(a_masked_task_goes_on_in_the_yellow_zone_and_is_stopped_later)
{
    stint_pool *pool = make_one(MIB);
    size_t size = MIB + 16 * KIB;
    for (int i = 0; i < 10; i++) {
        stint_outcome outcome = run_in(pool, go_too_deep, &size, NULL);
        assert_stack("masked", &outcome);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- The pages ---------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) int recurse_widely(int depth)
{
    volatile char room[8000];
    room[0] = (char)depth;
    return never ? room[0] : recurse_widely(depth + 1) + room[0];
}

static int spread_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse_widely(0);
}

TEST(what_a_task_used_of_a_workers_stack_is_given_back_when_that_is_idle)
{
    stint_pool *pool = make_one(64 * MIB);
    stint_outcome outcome = run_in(pool, spread_for_ever, NULL, NULL);
    assert_stack("wide frames", &outcome);
    outcome = run_in(pool, recurse_for_ever, NULL, NULL);
    assert_stack("narrow frames", &outcome);
    size_t used = resident();
    struct timespec nap = { .tv_nsec = 20000000 };
    for (int i = 0; i < 500 && resident() + 56 * MIB > used; i++)
        nanosleep(&nap, NULL);
    assert_true(resident() + 56 * MIB <= used);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
