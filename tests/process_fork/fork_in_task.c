/* SPDX-License-Identifier: MIT
 *
 * A task that forks and returns in the child, where its worker's thread is the only one: it waits for no lock of the
 * pool's that another thread had, and begins nothing else. */
#include <signal.h>
#include <sys/mman.h>

#include "../pools.h"
#include "executor/pool/pool_state.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */

/* --- Locks of the pool -------------------------------------------------------------------------------------------- */

struct locked {
    pthread_mutex_t *mutex;
    pid_t child;
};

/* As if another thread had it at that moment. In the child that returns, its thread ends, which is the last one. */
static int fork_while_locked(void *arg, void **value)
{
    struct locked *locked = arg;
    (void)value;
    locked->child = fork();
    if (locked->child == 0) {
        end_if_it_hangs(PATIENCE);
        pthread_mutex_trylock(locked->mutex);
    }
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
    assert_child_ends(pool, &pool->monitor.lock, &options);
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
static pid_t child;

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

TEST_MAIN()
