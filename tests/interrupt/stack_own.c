/* SPDX-License-Identifier: MIT
 *
 * Tasks that recurse for ever and call a function of this library at each level, so that their stack ends in the midst
 * of it: they end with an Error like all others, whatever the size of a frame. */
#include "pools.h"

#include <alloca.h>

#define ROOMS 8
#define STEP 16 /* bytes: so the pages of the stack end at another place of a frame */

static volatile bool never;
static stint_account *account;

STINT_FORKABLE(leaf, long, long)

static long leaf(stint_here here, long number)
{
    (void)here;
    return number;
}

static __attribute__((noinline)) long fork_typed(stint_here here, size_t room, long depth)
{
    struct leaf_subtask subtask;
    long result;
    keep(alloca(room));
    leaf_fork(here, &subtask, depth);
    long sum = never ? 0 : fork_typed(here, room, depth + 1);
    return leaf_join(here, &subtask, &result) + sum + result;
}

static __attribute__((noinline)) long fork_plain(size_t room, long depth)
{
    stint_subtask subtask;
    keep(alloca(room));
    stint_fork(&subtask, do_nothing, NULL);
    long sum = never ? 0 : fork_plain(room, depth + 1);
    return stint_join(&subtask, NULL) + sum;
}

static __attribute__((noinline)) long ask_for_usage(size_t room, long depth)
{
    stint_budget left;
    keep(alloca(room));
    stint_usage_now(NULL, &left);
    long sum = never ? depth : ask_for_usage(room, depth + 1);
    return sum + (long)left.memory;
}

static __attribute__((noinline)) long read_account(size_t room, long depth)
{
    stint_account_usage usage = { .size = sizeof usage };
    keep(alloca(room));
    stint_account_read(account, &usage);
    long sum = never ? depth : read_account(room, depth + 1);
    return sum + (long)usage.running;
}

/* --- Each of them ------------------------------------------------------------------------------------------------- */

static int fork_typed_for_ever(void *room, void **value)
{
    (void)value;
    return fork_typed(stint_here_current(), *(size_t *)room, 0) > 0 ? EIO : EINVAL;
}

static int fork_plain_for_ever(void *room, void **value)
{
    (void)value;
    return fork_plain(*(size_t *)room, 0) > 0 ? EIO : EINVAL;
}

static int ask_for_ever(void *room, void **value)
{
    (void)value;
    return ask_for_usage(*(size_t *)room, 0) > 0 ? EIO : EINVAL;
}

static int read_for_ever(void *room, void **value)
{
    (void)value;
    return read_account(*(size_t *)room, 0) > 0 ? EIO : EINVAL;
}

static stint_fn *const bombs[] = { fork_typed_for_ever, fork_plain_for_ever, ask_for_ever, read_for_ever };

#define BOMBS (sizeof bombs / sizeof *bombs)

static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_UNWIND, STINT_FAIL };

#define WAYS (sizeof ways / sizeof *ways)

static void assert_spent(stint_outcome outcome)
{
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
    assert_int_equal(outcome.error, ENOMEM);
}

static void run_each(stint_outcome run(stint_fn *fn, void *room, const stint_options *options))
{
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    for (size_t way = 0; way < WAYS; way++) {
        options.on_interrupt = ways[way];
        for (size_t i = 0; i < BOMBS; i++) {
            for (size_t room = STEP; room <= ROOMS * STEP; room += STEP)
                assert_spent(run(bombs[i], &room, &options));
        }
    }
    stint_account_release(account);
}

static void *run_each_here(void *unused)
{
    run_each(run_task);
    return unused;
}

TEST(a_recursion_through_the_library_ends_on_a_thread_of_the_programs_own)
{
    pthread_t thread;
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, MIB), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_each_here, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

/* More forks than a worker has slots for. */
static stint_pool *deep_pool;

static stint_outcome run_there(stint_fn *fn, void *room, const stint_options *options)
{
    return take(submit(deep_pool, fn, room, options));
}

TEST(and_on_a_worker)
{
    deep_pool = make_pool(.workers = 1, .stack_size = 2 * MIB);
    run_each(run_there);
    assert_int_equal(stint_pool_destroy(deep_pool), 0);
}

TEST_MAIN()
