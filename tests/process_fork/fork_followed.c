/* SPDX-License-Identifier: MIT
 *
 * A fork(2) in a callback of a future: in the child the thread goes on telling those who follow, and each of them is
 * told once, who follows there as well. */
#include "../task/calls.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */
#define CALLS 4

#define FUTURES 3

static stint_future *futures[FUTURES]; /* all have resolved */

static int open_futures(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 1);
    for (size_t i = 0; i < FUTURES; i++) {
        futures[i] = submit(pool, do_nothing, NULL, NULL);
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
    }
    return stint_pool_destroy(pool);
}

static int close_futures(void **state)
{
    (void)state;
    release_all(futures, FUTURES);
    return 0;
}

/* --- What the child does in the callback, and what came of it --- */

struct forked {
    pid_t child;
    void (*in_child)(struct call calls[CALLS]);
    struct call calls[CALLS];
};

static void fork_there(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct forked *forked = arg;
    (void)future;
    (void)outcome;
    forked->child = fork();
    if (forked->child == 0) {
        alarm(PATIENCE);
        forked->in_child(forked->calls);
    }
}

static void end_child(const struct forked *forked, unsigned called)
{
    if (forked->child != 0)
        return;
    for (unsigned i = 0; i < CALLS; i++) {
        if (atomic_load(&forked->calls[i].count) != (i < called))
            _exit(1 + (int)i);
    }
    _exit(0);
}

static void follow_it_and_another(struct call calls[CALLS])
{
    stint_future_then(futures[0], note, &calls[0]);
    stint_future_then(futures[1], note, &calls[1]);
}

TEST_WITH(a_child_made_in_a_callback_follows_that_future_and_another, open_futures, close_futures)
{
    struct forked forked = { .in_child = follow_it_and_another };
    assert_int_equal(stint_future_then(futures[0], fork_there, &forked), 0);
    end_child(&forked, 2);
    assert_ends_well(forked.child);
}

/* --- Futures whose followers are to be told next --- */

static void have_two_in_line(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct forked *forked = arg;
    stint_future_then(futures[1], note, &forked->calls[0]);
    stint_future_then(futures[2], note, &forked->calls[1]);
    fork_there(future, outcome, forked);
}

static void follow_those_in_line(struct call calls[CALLS])
{
    stint_future_then(futures[2], note, &calls[2]);
    stint_future_then(futures[1], note, &calls[3]);
}

TEST_WITH(a_child_made_in_a_callback_follows_futures_that_are_in_line, open_futures, close_futures)
{
    struct forked forked = { .in_child = follow_those_in_line };
    assert_int_equal(stint_future_then(futures[0], have_two_in_line, &forked), 0);
    end_child(&forked, CALLS);
    assert_int_equal(atomic_load(&forked.calls[0].count), 1);
    assert_int_equal(atomic_load(&forked.calls[1].count), 1);
    assert_ends_well(forked.child);
}

/* --- When nobody else is to be told any more --- */

static void follow_the_first(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct call *calls = arg;
    note(future, outcome, calls);
    stint_future_then(futures[0], note, &calls[1]);
}

static void have_one_in_line(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct forked *forked = arg;
    stint_future_then(futures[1], follow_the_first, forked->calls);
    fork_there(future, outcome, forked);
}

static void follow_it(struct call calls[CALLS])
{
    stint_future_then(futures[0], note, &calls[2]);
}

TEST_WITH(a_child_made_in_a_callback_follows_that_future_once_more, open_futures, close_futures)
{
    struct forked forked = { .in_child = follow_it };
    assert_int_equal(stint_future_then(futures[0], have_one_in_line, &forked), 0);
    end_child(&forked, 3);
    assert_ends_well(forked.child);
}

/* --- Records that another thread was telling are nobody's in the child --- */

static void stay(stint_future *future, const stint_outcome *outcome, void *gate)
{
    (void)future;
    (void)outcome;
    gate_hold(gate, NULL);
}

struct staying {
    struct gate gate;
    stint_continuation record;
};

static void *have_it_stay(void *arg)
{
    struct staying *staying = arg;
    stint_future_add_continuation(futures[0], &staying->record, stay, &staying->gate);
    return NULL;
}

TEST_WITH(a_callback_that_another_thread_is_in_is_over_in_the_child, open_futures, close_futures)
{
    struct staying staying = { .gate = { .open = false } };
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, have_it_stay, &staying), 0);
    gate_await(&staying.gate, 1);
    assert_int_equal(stint_future_remove_continuation(futures[0], &staying.record), EBUSY);
    pid_t child = fork();
    if (child == 0)
        _exit(stint_future_remove_continuation(futures[0], &staying.record) == EALREADY ? 0 : 1);
    assert_ends_well(child);
    gate_open(&staying.gate);
    assert_int_equal(pthread_join(other, NULL), 0);
}

/* --- A compound future whose members have resolved, which another thread was about to tell it --- */

static int wait_for_all_of(stint_future *parents)
{
    stint_future *all;
    alarm(PATIENCE);
    return stint_when_all(&parents, 1, &all) == 0 && stint_future_wait(all, NULL) == EOWNERDEAD ? 0 : 1;
}

TEST_WITH(what_another_thread_was_to_resolve_is_not_waited_for_in_the_child, open_futures, close_futures)
{
    struct staying staying = { .gate = { .open = false } };
    pthread_t other;
    stint_future *all;
    assert_int_equal(pthread_create(&other, NULL, have_it_stay, &staying), 0);
    gate_await(&staying.gate, 1);
    assert_int_equal(stint_when_all(futures, FUTURES, &all), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(wait_for_all_of(all));
    assert_ends_well(child);
    gate_open(&staying.gate);
    assert_int_equal(stint_future_wait(all, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    stint_future_release(all);
}

TEST_MAIN()
