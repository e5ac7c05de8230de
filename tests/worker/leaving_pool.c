/* SPDX-License-Identifier: MIT
 *
 * Jumps in tasks of a pool: a jump cannot leave its task; what it leaves inside the task is ended. */
#include "pools.h"

static jmp_buf way_out;

static stint_outcome run_in(stint_pool *pool, stint_fn *fn, void *arg)
{
    stint_future *future;
    stint_outcome outcome = { .error = ETIMEDOUT };
    assert_int_equal(stint_submit(pool, fn, arg, NULL, &future), 0);
    assert_int_equal(stint_future_wait_for(future, UINT64_C(10000000000), &outcome), 0);
    stint_future_release(future);
    return outcome;
}

/* A task that runs on top of another, which waits for it, jumps into that one's frame. */
struct on_top {
    stint_pool *pool;
    bool jumped;
    stint_outcome outcome;
};

static int jump_into_the_waiter(void *arg, void **value)
{
    (void)arg;
    (void)value;
    longjmp(way_out, 1);
}

static int wait_for_jumper(void *arg, void **value)
{
    (void)value;
    struct on_top *on_top = arg;
    stint_future *future;
    if (_setjmp(way_out) != 0) {
        on_top->jumped = true;
        return EIO;
    }
    int error = stint_submit(on_top->pool, jump_into_the_waiter, NULL, NULL, &future);
    if (error == 0)
        error = stint_future_wait(future, &on_top->outcome);
    stint_future_release(future);
    return error;
}

TEST(a_task_cannot_jump_into_one_below_it)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    struct on_top on_top = { .pool = make_pool(.workers = 1) };
    for (int i = 0; i < 10; i++) {
        assert_ok(run_in(on_top.pool, wait_for_jumper, &on_top));
        assert_false(on_top.jumped);
        assert_outcome(on_top.outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    }
    assert_int_equal(stint_pool_destroy(on_top.pool), 0);
}

/* Forks of frames that a jump leaves: none is run any more that was not, and those that run are waited for. */
static atomic_int runs;

static int use_the_frame(void *arg, void **value)
{
    (void)value;
    volatile int *cell = arg;
    atomic_fetch_add(&runs, 1);
    for (int i = 0; i < 200; i++)
        *cell = *cell == 7 ? 7 : abs(*cell) + 1000000;
    atomic_fetch_sub(&runs, 1);
    return 0;
}

STINT_FORKABLE(use_the_cell, int, int *)

static int use_the_cell(stint_here here, int *cell)
{
    (void)here;
    return use_the_frame(cell, NULL);
}

#define FORKS 20

static __attribute__((noinline)) void fork_and_jump(void)
{
    stint_here here = stint_here_current();
    stint_subtask subtasks[FORKS / 2];
    struct use_the_cell_subtask typed[FORKS / 2];
    int cells[FORKS];
    for (int i = 0; i < FORKS / 2; i++) {
        cells[i] = cells[FORKS / 2 + i] = 7;
        use_the_cell_fork(here, &typed[i], &cells[FORKS / 2 + i]);
        stint_fork(&subtasks[i], use_the_frame, &cells[i]);
    }
    longjmp(way_out, 1);
}

static __attribute__((noinline)) void jump_50_times(void)
{
    for (volatile int i = 0; i < 50; i++) {
        if (_setjmp(way_out) == 0)
            fork_and_jump();
    }
}

static int jump_over_forks(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_here here = stint_here_current();
    stint_subtask kept;
    struct use_the_cell_subtask kept_too;
    int cells[2] = { 7, 7 };
    int result;
    stint_fork(&kept, use_the_frame, &cells[0]);
    use_the_cell_fork(here, &kept_too, &cells[1]);
    jump_50_times();
    int error = use_the_cell_join(here, &kept_too, &result);
    return error != 0 ? error : stint_join(&kept, NULL);
}

TEST(forks_of_frames_that_a_jump_leaves_are_settled)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 20; i++)
        assert_ok(run_in(pool, jump_over_forks, NULL));
    assert_int_equal(atomic_load(&runs), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
