/* SPDX-License-Identifier: MIT
 *
 * Forks of frames that a jump of the program leaves: these forks go; those of the target frame and of outer frames
 * stay, wherever they run; and the task goes on. */
#include "pools.h"

#include <alloca.h>

#define DEPTH 20
#define MORE_THAN_SLOTS 5000

static jmp_buf back;
static volatile bool jumps = true;

STINT_FORKABLE(twice, long, long)

static long twice(stint_here here, long number)
{
    (void)here;
    return 2 * number;
}

static int twice_there(void *arg, void **value)
{
    *value = (void *)(2 * (long)arg);
    return 0;
}

/* --- Plain ones, and typed ones. The frames that are left must be frames of their own. ---------------------------- */

static __attribute__((noinline)) void fork_plain_and_jump(int depth)
{
    stint_subtask subtask;
    stint_fork(&subtask, twice_there, NULL);
    if (depth > 0)
        fork_plain_and_jump(depth - 1);
    else if (jumps)
        longjmp(back, 1);
    keep(&subtask);
}

static __attribute__((noinline)) void fork_typed_and_jump(stint_here here, int depth)
{
    struct twice_subtask subtask;
    twice_fork(here, &subtask, depth);
    if (depth > 0)
        fork_typed_and_jump(here, depth - 1);
    else if (jumps)
        longjmp(back, 1);
    keep(&subtask);
}

static void check_plain(stint_subtask *subtask, long expected)
{
    void *value;
    assert_int_equal(stint_join(subtask, &value), 0);
    assert_int_equal((long)value, expected);
}

static int keep_plain(void *arg, void **value)
{
    stint_subtask outer;
    stint_subtask inner;
    (void)arg;
    (void)value;
    keep(&outer);
    keep(&inner);
    stint_fork(&outer, twice_there, (void *)21);
    if (setjmp(back) == 0) {
        stint_fork(&inner, twice_there, (void *)4);
        fork_plain_and_jump(DEPTH);
    }
    check_plain(&inner, 8);
    check_plain(&outer, 42);
    return 0;
}

/* Room that the frame takes meanwhile lies below all else in it. */
static int keep_typed_beyond(size_t room)
{
    stint_here volatile here = stint_here_current(); /* not clobbered by the jump */
    struct twice_subtask outer;
    struct twice_subtask inner;
    long result;
    keep(&outer);
    keep(&inner);
    twice_fork(here, &outer, 21);
    if (setjmp(back) == 0) {
        if (room > 0)
            keep(alloca(room));
        twice_fork(here, &inner, 4);
        fork_typed_and_jump(here, DEPTH);
    }
    assert_int_equal(twice_join(here, &inner, &result), 0);
    assert_int_equal(result, 8);
    assert_int_equal(twice_join(here, &outer, &result), 0);
    assert_int_equal(result, 42);
    return 0;
}

static int keep_typed(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return keep_typed_beyond(0);
}

static int keep_typed_beyond_little(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return keep_typed_beyond(16);
}

static int keep_typed_beyond_much(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return keep_typed_beyond(20000);
}

static stint_fn *const kinds[] = { keep_plain, keep_typed, keep_typed_beyond_little, keep_typed_beyond_much };

#define KINDS (sizeof kinds / sizeof *kinds)

/* --- Wherever they would run -------------------------------------------------------------------------------------- */

static int run_nested(void *arg, void **value)
{
    stint_outcome outcome = run_task(*(stint_fn *const *)arg, NULL, NULL);
    (void)value;
    assert_ok(outcome);
    return 0;
}

/* All slots of a worker are taken. */
static int run_with_many_outstanding(void *arg, void **value)
{
    static stint_subtask many[MORE_THAN_SLOTS];
    for (long i = 0; i < MORE_THAN_SLOTS; i++)
        stint_fork(&many[i], twice_there, (void *)i);
    int error = (*(stint_fn *const *)arg)(NULL, value);
    for (long i = MORE_THAN_SLOTS; i-- > 0;)
        check_plain(&many[i], 2 * i);
    return error;
}

static void run_everywhere(stint_fn *fn, void *arg)
{
    stint_pool *pool = make_pool(.workers = 2);
    assert_ok(run_task(fn, arg, NULL));
    assert_ok(take(submit(pool, fn, arg, NULL)));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(forks_of_frames_that_are_left_go_and_the_task_goes_on)
{
    for (size_t i = 0; i < KINDS; i++)
        run_everywhere(kinds[i], NULL);
}

TEST(so_they_do_in_a_scope_inside_a_task)
{
    for (size_t i = 0; i < KINDS; i++)
        run_everywhere(run_nested, (void *)(uintptr_t)&kinds[i]);
}

TEST(so_they_do_beyond_the_slots_of_a_worker)
{
    for (size_t i = 0; i < KINDS; i++)
        run_everywhere(run_with_many_outstanding, (void *)(uintptr_t)&kinds[i]);
}

TEST(so_they_do_outside_of_tasks)
{
    for (size_t i = 0; i < KINDS; i++)
        assert_int_equal(kinds[i](NULL, NULL), 0);
}

/* --- An interrupt leaves the frame, and a guard of it still joins ------------------------------------------------ */

static long joined;

static void join_it(void *subtask)
{
    void *value = NULL;
    if (stint_join(subtask, &value) == 0)
        joined = (long)value;
}

static int fork_and_reach_a_limit(void *arg, void **value)
{
    stint_subtask subtask;
    (void)arg;
    (void)value;
    stint_fork(&subtask, twice_there, (void *)21);
    STINT_GUARD(join_it, &subtask);
    while (keep(stint_malloc(1000)) != NULL)
        ;
    return 0;
}

TEST(a_guard_of_an_interrupted_task_may_join_what_its_own_thread_runs)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    joined = 0;
    stint_outcome outcome = run_task(fork_and_reach_a_limit, NULL, &options);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(joined, 42);
}

/* --- What was forgotten is noticed all the same ------------------------------------------------------------------- */

static __attribute__((noinline)) void forget_one(void)
{
    stint_subtask subtask;
    stint_fork(&subtask, twice_there, NULL);
    keep(&subtask);
}

static int jump_and_forget(void *arg, void **value)
{
    int error = (*(stint_fn *const *)arg)(NULL, value);
    forget_one();
    return error;
}

static void must_fail(stint_outcome outcome)
{
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.error, EINVAL);
}

static int run_forgetful(void *arg, void **value)
{
    (void)value;
    must_fail(run_task(jump_and_forget, arg, NULL));
    return 0;
}

TEST(a_fork_that_is_forgotten_after_a_jump_fails_its_scope_and_no_other)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (size_t i = 0; i < KINDS; i++) {
        void *kind = (void *)(uintptr_t)&kinds[i];
        must_fail(run_task(jump_and_forget, kind, NULL));
        must_fail(take(submit(pool, jump_and_forget, kind, NULL)));
        assert_ok(run_task(run_forgetful, kind, NULL));
        assert_ok(take(submit(pool, run_forgetful, kind, NULL)));
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
