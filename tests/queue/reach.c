/* SPDX-License-Identifier: MIT
 *
 * Whatever is queued anywhere is reached in a bounded number of turns, whatever else there is to do. Counted in tasks,
 * not in time. */
#include "pools.h"

#define TURNS_FOR_OWN 64
#define TURNS_FOR_OTHER 64
#define MANY_TURNS 10000000 /* of a pool that never comes to it */

static stint_pool *pool;

static bool submit_and_forget(stint_fn *fn, void *arg)
{
    stint_future *future;
    if (stint_submit(pool, fn, arg, NULL, &future) != 0)
        return false;
    stint_future_release(future);
    return true;
}

/* --- Older tasks of a deque whose newest submits itself again
 * ------------------------------------------------------ */

#define VICTIMS 200

static struct {
    atomic_uint victims;
    atomic_uint loops;  /* that have begun */
    atomic_ulong turns; /* of all of them */
    atomic_uint ended;
} own;

static int be_victim(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_fetch_add(&own.victims, 1);
    return 0;
}

static int submit_itself(void *arg, void **value)
{
    (void)value;
    bool all = atomic_load(&own.victims) == VICTIMS;
    if (all || atomic_fetch_add(&own.turns, 1) > MANY_TURNS || !submit_and_forget(submit_itself, arg))
        atomic_fetch_add(&own.ended, 1);
    return 0;
}

static int begin_loop(void *arg, void **value)
{
    bool with_victims = arg != NULL;
    for (unsigned i = 0; with_victims && i < VICTIMS; i++)
        submit_and_forget(be_victim, NULL);
    return submit_itself(NULL, value);
}

TEST(older_tasks_run_beside_one_that_submits_itself_again)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        atomic_store(&own.victims, 0);
        atomic_store(&own.turns, 0);
        atomic_store(&own.ended, 0);
        pool = make_pool(.workers = workers, .substitutes = STINT_NO_SUBSTITUTES);
        for (unsigned i = 0; i < workers; i++)
            assert_true(submit_and_forget(begin_loop, i == 0 ? pool : NULL));
        while (atomic_load(&own.ended) < workers)
            gate_nap();
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_int_equal(atomic_load(&own.victims), VICTIMS);
        /* With one worker it is exact: no other takes any. */
        if (workers == 1)
            assert_true(atomic_load(&own.turns) <= TURNS_FOR_OWN * (VICTIMS + 2));
    }
}

/* --- A task in the deque of a worker that is busy for long
 * --------------------------------------------------------- */

static struct {
    atomic_ulong fillers;
    atomic_ulong fillers_before; /* the child was submitted */
    atomic_ulong fillers_until;  /* it ran */
    atomic_bool ran;
    struct gate gate;
} other;

static int fill(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_fetch_add(&other.fillers, 1);
    return 0;
}

static int be_child(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_store(&other.fillers_until, atomic_load(&other.fillers));
    atomic_store(&other.ran, true);
    return 0;
}

static int submit_a_child_and_hold(void *arg, void **value)
{
    (void)arg;
    submit_and_forget(be_child, NULL);
    atomic_store(&other.fillers_before, atomic_load(&other.fillers));
    return gate_hold(&other.gate, value);
}

TEST(a_child_of_a_busy_task_is_stolen_although_the_queue_is_never_empty)
{
    enum { QUEUED = 1000 };
    pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
    struct gate both = { 0 };
    stint_future *holders[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &both, NULL, &holders[i]), 0);
    gate_await(&both, 2);
    assert_true(submit_and_forget(submit_a_child_and_hold, NULL));
    for (unsigned i = 0; i < QUEUED; i++)
        assert_true(submit_and_forget(fill, NULL));
    gate_open(&both);
    while (!atomic_load(&other.ran))
        gate_nap();
    gate_open(&other.gate);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_future_wait(holders[i], NULL), 0);
        stint_future_release(holders[i]);
    }
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    /* Less than none, if it ran at once. */
    long between = (long)(atomic_load(&other.fillers_until) - atomic_load(&other.fillers_before));
    assert_true(between <= TURNS_FOR_OTHER * 2 + 16);
}

TEST_MAIN()
