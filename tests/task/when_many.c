/* SPDX-License-Identifier: MIT
 *
 * Many compound futures, made, dropped and resolved at once; and that nothing of them stays with members that live
 * long. */
#include "compounds.h"
#include "executor/task/continuation.h"

/* --- Many --------------------------------------------------------------------------------------------------------- */

/* Resolving, cancelling and freeing them needs no stack of that depth. */
TEST(compounds_may_be_nested_without_end)
{
    stint_pool *pool = make_pool(.workers = 1);
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct gate gate = { 0 };
        stint_future *innermost = submit(pool, gate_hold_interruptibly, &gate, NULL);
        stint_future *compound = innermost;
        for (unsigned i = 0, count = repeats(200000); i < count; i++) {
            stint_future *inner = compound;
            compound = i % 2 == 0 ? all_of(&inner, 1) : any_of(&inner, 1);
            stint_future_release(inner);
        }
        if (cancelled)
            stint_future_cancel(compound);
        else
            gate_open(&gate);
        assert_int_equal(take(compound).status, cancelled ? STINT_CANCELLED : STINT_OK);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void called(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Members resolve on two workers, and are cancelled by this thread, while compounds are made of them and released. */
TEST(compounds_made_while_their_members_resolve_all_resolve)
{
    stint_pool *pool = make_pool(.workers = 2);
    atomic_uint ran = 0, calls = 0;
    for (unsigned round = 0, rounds = repeats(2000); round < rounds; round++) {
        stint_future *futures[8];
        for (int i = 0; i < 8; i++)
            futures[i] = submit(pool, count_run, &ran, NULL);
        if (round % 3 == 0)
            stint_future_cancel(futures[round % 8]);
        stint_future *pair[2] = { all_of(futures, 8), any_of(futures, 8) };
        assert_int_equal(stint_future_then(pair[0], called, &calls), 0);
        assert_int_equal(stint_future_then(pair[1], called, &calls), 0);
        release_all(futures, 8);
        stint_future *both = all_of(pair, 2);
        if (round % 2 == 0) {
            stint_outcome outcome = take(both);
            assert_int_equal(outcome.error, outcome.status == STINT_OK ? 0 : ECANCELED);
            assert_true(stint_future_is_ready(pair[0]) && stint_future_is_ready(pair[1]));
            assert_true(index_of(pair[1]) < 8);
        } else {
            stint_future_release(both);
        }
        release_all(pair, 2);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&calls), 2 * repeats(2000));
}

/* --- Members that live long --------------------------------------------------------------------------------------- */

/* Only the worker's and the test's references are left. The thread that resolved another member may still be about
 * to let go. */
static bool nothing_follows(stint_future *future)
{
    for (int i = 0; i < 20000 && atomic_load(&future->references) > 2; i++)
        gate_nap();
    return !sti_continuation_is_followed(future) && atomic_load(&future->references) == 2;
}

TEST(any_of_a_long_lived_future_and_others_in_a_loop_leaves_nothing)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *shutdown = submit(pool, gate_hold_interruptibly, &gate, NULL);
    gate_await(&gate, 1);
    stint_pool *workers = make_pool(.workers = 1);
    for (unsigned i = 0, turns = repeats(1000); i < turns; i++) {
        stint_future *member = submit(workers, give, NULL, NULL);
        if (i % 2 == 0)
            assert_int_equal(stint_future_wait(member, NULL), 0);
        /* Either may be the first that is looked at. */
        stint_future *members[] = { i % 4 < 2 ? shutdown : member, i % 4 < 2 ? member : shutdown };
        stint_future *any = any_of(members, 2);
        assert_int_equal(stint_future_wait(any, NULL), 0);
        stint_future_release(member);
        assert_false(sti_continuation_is_followed(shutdown)); /* before the compound has gone, */
        stint_future_release(any);
        assert_true(nothing_follows(shutdown)); /* and after */
    }
    gate_open(&gate);
    assert_int_equal(stint_future_wait(shutdown, NULL), 0);
    stint_future_release(shutdown);
    assert_int_equal(stint_pool_destroy(workers), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_compound_that_is_released_unresolved_leaves_nothing)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *long_lived[] = { submit(pool, gate_hold, &gate, NULL), submit(pool, gate_hold, &gate, NULL) };
    gate_await(&gate, 2);
    for (unsigned i = 0, turns = repeats(1000); i < turns; i++) {
        stint_future *both[] = { i % 2 == 0 ? any_of(long_lived, 2) : all_of(long_lived, 2), long_lived[0] };
        stint_future *outer = all_of(both, 2);
        stint_future_release(both[0]);
        assert_int_equal(stint_future_wait_for(outer, 0, NULL), ETIMEDOUT);
        stint_future_release(outer);
        assert_true(nothing_follows(long_lived[0]) && nothing_follows(long_lived[1]));
    }
    gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_future_wait(long_lived[i], NULL), 0);
        stint_future_release(long_lived[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void count_it(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(what_follows_a_compound_that_is_released_is_called_all_the_same)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint calls = 0;
    stint_future *member = submit(pool, gate_hold, &gate, NULL);
    stint_future *any = any_of(&member, 1);
    stint_future *all = all_of(&any, 1);
    assert_int_equal(stint_future_then(any, count_it, &calls), 0);
    assert_int_equal(stint_future_then(all, count_it, &calls), 0);
    stint_future_release(all);
    stint_future_release(any);
    gate_open(&gate);
    stint_future_release(member);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&calls), 2);
}

/* Compounds of the same two futures, made and dropped by several threads while the futures resolve. */
static void *make_and_drop(void *arg)
{
    stint_future **members = arg;
    for (int i = 0; i < 200; i++) {
        stint_future *any;
        stint_future *all;
        if (stint_when_any(members, 2, &any) != 0)
            break;
        if (stint_when_all((stint_future *[]){ any, members[0] }, 2, &all) == 0)
            stint_future_release(all);
        stint_future_release(any);
    }
    return NULL;
}

TEST(compounds_may_be_dropped_while_their_members_resolve)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (unsigned round = repeats(200); round > 0; round--) {
        struct gate gates[2] = { 0 };
        stint_future *members[] = { submit(pool, gate_hold, &gates[0], NULL),
                                    submit(pool, gate_hold, &gates[1], NULL) };
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, make_and_drop, members), 0);
        for (int i = 0; i < 2; i++)
            gate_open(&gates[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stint_future_wait(members[i], NULL), 0);
            stint_future_release(members[i]);
        }
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int go_on_with_nothing(const stint_outcome *outcome, void *arg, void **value)
{
    (void)outcome;
    (void)arg;
    (void)value;
    return 0;
}

/* They end on the thread that cancels the compound, while their callbacks still wait in its line. */
TEST(futures_that_a_compound_cancels_leave_nothing_in_the_pool)
{
    enum { FUTURES = 500 };
    stint_future *futures[FUTURES];
    struct gate gate = { 0 };
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    size_t before = 0;
    for (unsigned round = 0; round < 100; round++) {
        if (round == 10)
            before = resident();
        for (unsigned i = 0; i < FUTURES; i++)
            assert_int_equal(stint_future_then_submit(held, pool, go_on_with_nothing, NULL, NULL, &futures[i]), 0);
        stint_future *all = all_of(futures, FUTURES);
        stint_future_cancel(all);
        assert_int_equal(take(all).status, STINT_CANCELLED);
        release_all(futures, FUTURES);
    }
    assert_in_range(resident(), 0, before + 4 * MIB); /* of 39 */
    gate_open(&gate);
    assert_ok(take(held));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
