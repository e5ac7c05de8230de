/* SPDX-License-Identifier: MIT
 *
 * A task that forks and returns in the child, where its worker's thread is the only one: it waits for no lock of the
 * pool's that another thread had, and begins nothing else. The same of what threads of the library's call. */
#include <signal.h>
#include <sys/mman.h>

#include "../pools.h"
#include "executor/pool/pool_state.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */

/* --- Locks of the pool -------------------------------------------------------------------------------------------- */

struct locked {
    pthread_mutex_t *mutex;
    struct gate wanted, gate;
    pid_t child;
};

static struct locked *_Atomic lock_at_fork;

static void *take_and_stay(void *arg)
{
    struct locked *locked = arg;
    gate_hold(&locked->wanted, NULL);
    pthread_mutex_lock(locked->mutex);
    gate_hold(&locked->gate, NULL);
    pthread_mutex_unlock(locked->mutex);
    return NULL;
}

/* With the library's locks of its own for the fork: a thread of its that has one may wait for this one. */
static void have_it_locked(void)
{
    struct locked *locked = atomic_exchange(&lock_at_fork, NULL);
    if (locked == NULL)
        return;
    gate_open(&locked->wanted);
    gate_await(&locked->gate, 1);
}

__attribute__((constructor(101))) static void be_the_last_before_a_fork(void)
{
    pthread_atfork(have_it_locked, NULL, NULL);
}

/* While another thread has it. In the child that returns, its thread ends, which is the last one. */
static int fork_while_locked(void *arg, void **value)
{
    struct locked *locked = arg;
    pthread_t other;
    (void)value;
    if (pthread_create(&other, NULL, take_and_stay, locked) != 0)
        return EAGAIN;
    gate_await(&locked->wanted, 1);
    atomic_store(&lock_at_fork, locked);
    locked->child = fork();
    if (locked->child == 0) {
        end_if_it_hangs(PATIENCE);
        return 0;
    }
    gate_open(&locked->gate);
    pthread_join(other, NULL);
    return 0;
}

static void assert_child_ends(stint_pool *pool, pthread_mutex_t *mutex, const stint_options *options)
{
    struct locked locked = { .mutex = mutex };
    assert_ok(run_in_pool(pool, fork_while_locked, &locked, options));
    assert_ends_well(locked.child);
}

TEST(a_task_of_an_account_ends_in_the_child)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = make_account(NULL);
    assert_child_ends(pool, &pool->fair_queue.lock, &options);
    stint_account_release(options.account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_task_that_is_watched_ends_in_the_child)
{
    stint_pool *pool = make_pool(.workers = 1, .overdue_ns = 60000 * MS);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 60000 * MS;
    assert_child_ends(pool, &pool->overdue.lock, &options);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_task_that_another_waits_for_to_be_started_ends_in_the_child)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { .open = false };
    struct locked locked = { .mutex = &pool->delays.lock };
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    stint_future *next, *future = submit(pool, fork_while_locked, &locked, NULL);
    assert_int_equal(stint_future_then_submit(future, pool, do_nothing_next, NULL, NULL, &next), 0);
    gate_open(&gate);
    assert_ok(take(next));
    assert_ok(take(future));
    assert_ok(take(held));
    assert_ends_well(locked.child);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- What its worker would have run next -------------------------------------------------------------------------- */

struct seen { /* by both processes */
    atomic_uint begun;
    atomic_int error;
};

static struct seen *seen;
static _Atomic pid_t child;

static int fork_and_return(void *arg, void **value)
{
    (void)value;
    (void)arg;
    child = fork();
    if (child == 0)
        end_if_it_hangs(PATIENCE);
    return 0;
}

static int count(void *arg, void **value)
{
    (void)value;
    (void)arg;
    atomic_fetch_add(&seen->begun, 1);
    return 0;
}

static int await_all(void *all, void **value)
{
    (void)value;
    int error = stint_future_wait(all, NULL);
    if (child == 0)
        atomic_store(&seen->error, error);
    return error;
}

TEST(what_a_forking_task_is_awaited_with_is_not_run_in_the_child_as_well)
{
    struct gate gate = { .open = false };
    stint_future *both[2], *all;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    both[0] = submit(pool, fork_and_return, NULL, NULL);
    both[1] = submit(pool, count, NULL, NULL);
    assert_int_equal(stint_when_all(both, 2, &all), 0);
    stint_options first = STINT_OPTIONS_INIT;
    first.priority = STINT_PRIORITY_HIGH;
    stint_future *waiting = submit(pool, await_all, all, &first);
    gate_open(&gate);
    assert_ok(take(waiting));
    assert_ends_well(child);
    assert_int_equal(atomic_load(&seen->begun), 1);
    assert_int_equal(atomic_load(&seen->error), EOWNERDEAD);
    stint_future_release(all);
    stint_future_release(held);
    release_all(both, 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
    munmap(seen, sizeof *seen);
}

/* --- What a thief had --------------------------------------------------------------------------------------------- */

static atomic_uint thief_begun, forked;

static int fork_where_it_is_joined(void *arg, void **value)
{
    fork_and_return(arg, value);
    atomic_fetch_add(&forked, 1);
    return 0;
}

static int have_one_stolen_back(void *arg, void **value)
{
    stint_subtask inner;
    (void)value;
    atomic_fetch_add(&thief_begun, 1);
    stint_fork(&inner, fork_where_it_is_joined, arg);
    have_stolen(&forked);
    return stint_join(&inner, NULL);
}

static int join_stolen(void *arg, void **value)
{
    stint_subtask outer;
    (void)value;
    stint_fork(&outer, have_one_stolen_back, arg);
    have_stolen(&thief_begun);
    int error = stint_join(&outer, NULL);
    if (child == 0)
        atomic_store(&seen->error, error);
    return error;
}

TEST(a_join_in_the_child_waits_for_no_thief_of_the_parent_s)
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    stint_pool *pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
    assert_ok(run_in_pool(pool, join_stolen, NULL, NULL));
    assert_ends_well(child);
    assert_int_equal(atomic_load(&seen->error), EOWNERDEAD);
    assert_int_equal(stint_pool_destroy(pool), 0);
    munmap(seen, sizeof *seen);
}

/* --- Threads of the library's, which in the child are of no use: so they end, and the process with them
 * ------------- */

static void fork_in_report(const stint_overdue_report *report, void *arg)
{
    (void)report;
    fork_and_return(arg, NULL);
}

static int be_overdue(void *arg, void **value)
{
    (void)value;
    stint_mask();
    while (child == 0)
        nap_ms(1);
    stint_unmask();
    return do_nothing(arg, value);
}

TEST(the_thread_of_overdue_reports_ends_in_the_child)
{
    child = 0;
    stint_pool *pool = make_pool(.workers = 1, .overdue_ns = MS, .on_overdue = fork_in_report);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = MS;
    assert_int_equal(run_in_pool(pool, be_overdue, NULL, &options).reason, STINT_REASON_DEADLINE);
    assert_ends_well(child);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void fork_in_hook(void *arg)
{
    fork_and_return(arg, NULL);
}

static int sleep_with_a_hook(void *arg, void **value)
{
    stint_hook hook;
    if (stint_hook_push(&hook, fork_in_hook, arg) != 0)
        return EAGAIN;
    while (child == 0)
        nap_ms(1);
    stint_checkpoint();
    stint_hook_pop(&hook);
    return do_nothing(arg, value);
}

TEST(the_watch_of_tasks_ends_in_the_child)
{
    child = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = MS;
    assert_int_equal(run_task(sleep_with_a_hook, NULL, &options).reason, STINT_REASON_DEADLINE);
    assert_ends_well(child);
}

TEST_MAIN()
