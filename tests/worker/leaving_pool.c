/* SPDX-License-Identifier: MIT
 *
 * Tasks of a pool, stolen subtasks and callbacks that do not return: by longjmp, pthread_exit, thrd_exit or
 * pthread_cancel. The thread is the pool's and stays; what was left has failed. */
#include <threads.h>

#include "pools.h"

static jmp_buf way_out;

enum { BY_LONGJMP, BY_PTHREAD_EXIT, BY_THRD_EXIT, BY_CANCEL, WAYS };

static void leave(int way)
{
    if (way == BY_LONGJMP)
        longjmp(way_out, 1);
    if (way == BY_PTHREAD_EXIT)
        pthread_exit(NULL);
    if (way == BY_THRD_EXIT)
        thrd_exit(0);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_cancel(pthread_self());
    for (;;)
        pause();
}

static bool can(int way)
{
    return way != BY_LONGJMP || stint_malloc_is_overridden();
}

static stint_outcome run_in(stint_pool *pool, stint_fn *fn, void *arg)
{
    stint_future *future;
    stint_outcome outcome = { .error = ETIMEDOUT };
    assert_int_equal(stint_submit(pool, fn, arg, NULL, &future), 0);
    assert_int_equal(stint_future_wait_for(future, UINT64_C(10000000000), &outcome), 0);
    stint_future_release(future);
    return outcome;
}

static atomic_int released;

static void release(void *arg)
{
    (void)arg;
    atomic_fetch_add(&released, 1);
}

static int leave_task(void *arg, void **value)
{
    (void)value;
    STINT_GUARD(release, NULL);
    keep(stint_malloc(10000));
    leave(*(const int *)arg);
    return 0;
}

TEST(a_task_that_ends_its_thread_fails_and_the_worker_stays)
{
    for (int way = BY_PTHREAD_EXIT; way < WAYS; way++) {
        stint_pool *pool = make_pool(.workers = 1);
        atomic_store(&released, 0);
        int times = way == BY_CANCEL ? 1 : 3; /* to libc the thread is ending: it is not cancelled again */
        for (int i = 0; i < times; i++) {
            assert_outcome(run_in(pool, leave_task, &way), STINT_ERROR, STINT_REASON_FAILED, EINVAL);
            assert_int_equal(atomic_load(&released), i + 1);
            assert_ok(run_in(pool, do_nothing, NULL));
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* The pool is left to a worker of which libc believes that it ends. */
static atomic_bool go_on;

static int exit_then_stay(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    while (!atomic_load(&go_on))
        usleep(1000);
    stint_unmask();
    return 0;
}

TEST(a_pool_can_be_left_to_a_worker_that_was_to_end)
{
    stint_pool *pool = make_pool(.workers = 1);
    int way = BY_PTHREAD_EXIT;
    assert_outcome(run_in(pool, leave_task, &way), STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, exit_then_stay, NULL, NULL, &future), 0);
    assert_int_equal(stint_future_wait_for(future, 20000000, &outcome), ETIMEDOUT);
    assert_int_equal(stint_pool_destroy_within(pool, 1000000, NULL), ETIMEDOUT);
    atomic_store(&go_on, true);
    assert_int_equal(stint_future_wait_for(future, UINT64_C(10000000000), &outcome), 0);
    stint_future_release(future);
}

static int run_and_leave(void *arg, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_run(leave_task, arg, NULL, &outcome);
    return 0;
}

TEST(an_inner_scope_s_end_of_the_thread_is_the_whole_task_s)
{
    for (int way = BY_PTHREAD_EXIT; way < WAYS; way++) {
        stint_pool *pool = make_pool(.workers = 1);
        assert_outcome(run_in(pool, run_and_leave, &way), STINT_ERROR, STINT_REASON_FAILED, EINVAL);
        assert_ok(run_in(pool, do_nothing, NULL));
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
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
    leave(BY_LONGJMP);
    return 0;
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
    if (!can(BY_LONGJMP))
        skip();
    struct on_top on_top = { .pool = make_pool(.workers = 1) };
    for (int i = 0; i < 10; i++) {
        assert_ok(run_in(on_top.pool, wait_for_jumper, &on_top));
        assert_false(on_top.jumped);
        assert_outcome(on_top.outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    }
    assert_int_equal(stint_pool_destroy(on_top.pool), 0);
}

/* --- Subtasks ----------------------------------------------------------------------------------------------------- */

struct forking {
    int way;
    atomic_bool begun;
};

static int leave_subtask(void *arg, void **value)
{
    struct forking *forking = arg;
    (void)value;
    atomic_store(&forking->begun, true);
    leave(forking->way);
    return 0;
}

static int fork_one_that_leaves(void *arg, void **value)
{
    (void)value;
    struct forking *forking = arg;
    stint_subtask left, right;
    stint_fork(&left, leave_subtask, forking);
    while (!atomic_load(&forking->begun)) { /* until it has been stolen */
        stint_fork(&right, do_nothing, NULL);
        stint_join(&right, NULL);
    }
    stint_join(&left, NULL);
    return 0;
}

TEST(a_stolen_subtask_that_does_not_return_fails_its_task)
{
    for (int i = 0; i < 20; i++) {
        struct forking forking = { .way = BY_PTHREAD_EXIT + i % (WAYS - BY_PTHREAD_EXIT) };
        stint_pool *pool = make_pool(.workers = 2);
        assert_outcome(run_in(pool, fork_one_that_leaves, &forking), STINT_ERROR, STINT_REASON_FAILED, EINVAL);
        assert_ok(run_in(pool, do_nothing, NULL));
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
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
    if (!can(BY_LONGJMP))
        skip();
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 20; i++)
        assert_ok(run_in(pool, jump_over_forks, NULL));
    assert_int_equal(atomic_load(&runs), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Callbacks ---------------------------------------------------------------------------------------------------- */

static atomic_int told;

static void be_told(const char *where, const char *what, void *arg)
{
    (void)what;
    (void)arg;
    if (strcmp(where, "callback") == 0)
        atomic_fetch_add(&told, 1);
}

static void leave_callback(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    leave(*(const int *)arg);
}

static void note_callback(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    atomic_store((atomic_bool *)arg, true);
}

TEST(a_callback_that_does_not_return_ends_where_it_began)
{
    stint_exceptions_set_report(be_told, NULL);
    for (int way = 0; way < WAYS; way++) {
        if (!can(way))
            continue;
        stint_pool *volatile pool = make_pool(.workers = 1);
        atomic_store(&told, 0);
        stint_future *future;
        atomic_bool next;
        atomic_init(&next, false);
        assert_int_equal(stint_submit(pool, do_nothing, NULL, NULL, &future), 0);
        if (way != BY_LONGJMP) {
            assert_int_equal(stint_future_then(future, leave_callback, &way), 0);
        } else {
            assert_int_equal(stint_future_wait(future, NULL), 0);
            volatile bool jumped = _setjmp(way_out) != 0; /* here it is called at once */
            if (!jumped)
                assert_int_equal(stint_future_then(future, leave_callback, &way), 0);
            assert_false(jumped);
        }
        assert_int_equal(stint_future_then(future, note_callback, &next), 0);
        assert_int_equal(stint_future_wait(future, NULL), 0);
        while (!atomic_load(&next) || atomic_load(&told) == 0)
            sched_yield();
        stint_future_release(future);
        assert_ok(run_in(pool, do_nothing, NULL));
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
    stint_exceptions_set_report(NULL, NULL);
}

TEST_MAIN()
