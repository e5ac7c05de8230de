/* SPDX-License-Identifier: MIT
 *
 * A task that forks for ever, and recurses for ever on all of its threads: it ends as a whole, and the pool goes on. */
#include "support.h"

static volatile bool never;
static volatile size_t padding = 100;

static int fork_for_ever(void *arg, void **value)
{
    volatile char *room = __builtin_alloca(padding);
    stint_subtask subtask;
    room[0] = 1;
    stint_fork(&subtask, fork_for_ever, arg);
    int sum = never ? 0 : fork_for_ever(arg, value);
    return sum + stint_join(&subtask, NULL) + room[0];
}

TEST(a_recursion_through_forks_ends)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 3;
    options.stack_size = 256 * KIB;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    for (unsigned i = 0; i < repeats(200); i++) {
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, fork_for_ever, NULL, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.status, STINT_ERROR);
        assert_int_equal(outcome.reason, STINT_REASON_STACK);
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* The other workers have asked for work by then, and cannot be given any: the forks of an inner scope are its thread's.
 * So each fork takes the slow path, where the library's frames are the deepest. */
static int recurse_in_inner_scope(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    usleep(1000);
    int error = stint_run(fork_for_ever, arg, NULL, &outcome);
    return error != 0 ? error : outcome.reason == STINT_REASON_STACK ? 0 : EINVAL;
}

TEST(a_recursion_through_forks_that_no_other_thread_may_run_ends)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 3;
    options.stack_size = 256 * KIB;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    for (padding = 16; padding <= 640; padding += 16) {
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, recurse_in_inner_scope, NULL, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.status, STINT_OK);
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
