/* SPDX-License-Identifier: MIT
 *
 * Compound futures: all of some futures, any of them; of compounds too. */
#include "compounds.h"

#define MANY 40

static int refuse(void *arg, void **value)
{
    (void)value;
    return *(int *)arg;
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *futures[2] = { submit(pool, give, NULL, NULL), NULL };
    stint_future *made = NULL;
    size_t index;
    assert_int_equal(stint_when_all(futures, 1, NULL), EINVAL);
    assert_int_equal(stint_when_all(NULL, 1, &made), EINVAL);
    assert_int_equal(stint_when_all(futures, 2, &made), EINVAL);
    assert_int_equal(stint_when_any(futures, 1, NULL), EINVAL);
    assert_int_equal(stint_when_any(NULL, 1, &made), EINVAL);
    assert_int_equal(stint_when_any(futures, 2, &made), EINVAL);
    assert_int_equal(stint_when_any(futures, 0, &made), EINVAL);
    assert_null(made);
    assert_int_equal(stint_when_any_index(NULL, &index), EINVAL);
    assert_int_equal(stint_when_any_index(futures[0], &index), EINVAL);
    stint_future *all = all_of(futures, 1);
    stint_future *any = any_of(futures, 1);
    assert_int_equal(stint_when_any_index(all, &index), EINVAL);
    assert_int_equal(stint_when_any_index(any, NULL), EINVAL);
    stint_future_release(all);
    stint_future_release(any);
    stint_future_release(futures[0]);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(all_of_nothing_is_ok_at_once)
{
    stint_future *all = all_of(NULL, 0);
    assert_true(stint_future_is_ready(all));
    stint_outcome outcome = take(all);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.reason, STINT_REASON_NONE);
    assert_int_equal(outcome.error, 0);
    assert_null(outcome.value);
}

TEST(all_resolves_when_the_last_of_them_has)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *futures[MANY];
    futures[0] = submit(pool, gate_hold, &gate, NULL);
    for (int i = 1; i < MANY; i++)
        futures[i] = submit(pool, give, pool, NULL);
    stint_future *all = all_of(futures, MANY);
    for (int i = 1; i < MANY; i++)
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
    assert_false(stint_future_is_ready(all));
    assert_int_equal(stint_future_wait_for(all, 1000000, NULL), ETIMEDOUT);
    release_all(futures, MANY); /* the compound keeps them */
    gate_open(&gate);
    stint_outcome outcome = take(all);
    assert_int_equal(outcome.status, STINT_OK);
    assert_null(outcome.value);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int allocate(void *arg, void **value)
{
    (void)value;
    stint_free(stint_malloc(*(size_t *)arg));
    return 0;
}

TEST(all_adds_up_what_its_members_used)
{
    stint_pool *pool = make_pool(.workers = 1);
    size_t sizes[3] = { 1600, 16000, 160 };
    stint_future *futures[3];
    stint_outcome outcomes[3];
    for (int i = 0; i < 3; i++)
        futures[i] = submit(pool, allocate, &sizes[i], NULL);
    stint_usage usage = take(all_of(futures, 3)).usage;
    assert_int_equal(usage.allocated, 1600 + 16000 + 160);
    uint64_t samples = 0, peak = 0, wall = 0, queued = 0;
    for (int i = 0; i < 3; i++) {
        outcomes[i] = take(futures[i]);
        samples += outcomes[i].usage.samples;
        peak = outcomes[i].usage.peak > peak ? outcomes[i].usage.peak : peak;
        wall = outcomes[i].usage.wall_ns > wall ? outcomes[i].usage.wall_ns : wall;
        queued = outcomes[i].usage.queued_ns > queued ? outcomes[i].usage.queued_ns : queued;
    }
    assert_int_equal(usage.samples, samples);
    assert_int_equal(usage.peak, peak);
    assert_int_equal(usage.wall_ns, wall);
    assert_int_equal(usage.queued_ns, queued);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(all_says_what_the_first_says_that_is_not_ok)
{
    stint_pool *pool = make_pool(.workers = 2);
    int codes[2] = { 41, 42 };
    struct gate gate = { 0 };
    stint_future *futures[4] = { submit(pool, gate_hold, &gate, NULL), submit(pool, refuse, &codes[0], NULL),
                                 submit(pool, refuse, &codes[1], NULL), submit(pool, give, pool, NULL) };
    assert_int_equal(stint_future_wait(futures[2], NULL), 0);
    stint_future *all = all_of(futures, 4);
    assert_int_equal(stint_future_wait(futures[1], NULL), 0);
    assert_int_equal(stint_future_wait(futures[3], NULL), 0);
    assert_false(stint_future_is_ready(all)); /* it still waits for the rest */
    gate_open(&gate);
    stint_outcome outcome = take(all);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, 41);
    assert_null(outcome.value);
    release_all(futures, 4);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct ending {
    struct gate gate;
    int code;
};

static int end_so(void *arg, void **value)
{
    struct ending *ending = arg;
    gate_hold(&ending->gate, value);
    *value = ending;
    return ending->code;
}

TEST(any_resolves_with_the_first_of_them_and_tells_which)
{
    stint_pool *pool = make_pool(.workers = 3);
    for (size_t first = 0; first < 3; first++) {
        struct ending endings[3] = { { .code = 0 }, { .code = 9 }, { .code = 0 } };
        stint_future *futures[3];
        for (size_t i = 0; i < 3; i++)
            futures[i] = submit(pool, end_so, &endings[i], NULL);
        stint_future *any = any_of(futures, 3);
        size_t index = 7;
        assert_int_equal(stint_when_any_index(any, &index), EAGAIN);
        assert_int_equal(index, 7);
        gate_open(&endings[first].gate);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(any, &outcome), 0);
        assert_int_equal(index_of(any), first);
        assert_int_equal(outcome.error, endings[first].code);
        assert_int_equal(outcome.status, endings[first].code == 0 ? STINT_OK : STINT_ERROR);
        assert_true(outcome.value == (endings[first].code == 0 ? &endings[first] : NULL));
        assert_false(stint_future_is_ready(futures[(first + 1) % 3]));
        stint_future_release(any); /* before the others have ended */
        for (size_t i = 0; i < 3; i++)
            gate_open(&endings[i].gate);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(take(futures[i]).error, endings[i].code);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(of_several_that_have_resolved_already_the_first_counts)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    int numbers[2];
    stint_future *futures[4] = { submit(pool, gate_hold, &gate, NULL), submit(pool, give, &numbers[0], NULL),
                                 submit(pool, give, &numbers[1], NULL) };
    futures[3] = futures[0]; /* one may be in it twice */
    assert_int_equal(stint_future_wait(futures[2], NULL), 0);
    assert_int_equal(stint_future_wait(futures[1], NULL), 0);
    stint_future *any = any_of(futures, 4);
    assert_true(stint_future_is_ready(any));
    assert_int_equal(index_of(any), 1);
    assert_ptr_equal(take(any).value, &numbers[0]);
    gate_open(&gate);
    assert_int_equal(take(all_of(futures, 4)).status, STINT_OK);
    release_all(futures, 3);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(cancelling_a_compound_cancels_its_members)
{
    stint_pool *pool = make_pool(.workers = 1);
    for (int round = 0; round < 2; round++) {
        struct gate gate = { 0 };
        /* The one that runs is the last to be cancelled: when it ends, its worker takes the others. */
        stint_future *running = submit(pool, gate_hold_interruptibly, &gate, NULL);
        gate_await(&gate, 1);
        stint_future *futures[3] = { submit(pool, give, pool, NULL), submit(pool, give, pool, NULL), running };
        stint_future *compound = round == 0 ? all_of(futures, 3) : any_of(futures, 3);
        stint_future *outer = all_of(&compound, 1);
        stint_future_cancel(outer);
        stint_future_cancel(outer);
        assert_int_equal(take(outer).reason, STINT_REASON_TOKEN);
        stint_outcome outcome = take(compound);
        assert_int_equal(outcome.status, STINT_CANCELLED);
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
        for (int i = 0; i < 3; i++)
            assert_int_equal(take(futures[i]).status, STINT_CANCELLED);
    }
    stint_future *none = all_of(NULL, 0);
    stint_future_cancel(none);
    assert_int_equal(take(none).status, STINT_OK);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Waiting in a task -------------------------------------------------------------------------------------------- */

struct relatives {
    stint_pool *pool;
    stint_future *self;
    stint_future *futures[MANY];
    atomic_uint ran;
    int error, all_error, any_error;
    size_t index;
};

static int await_all_children(void *arg, void **value)
{
    struct relatives *relatives = arg;
    (void)value;
    for (int i = 0; i < MANY; i++)
        relatives->futures[i] = submit(relatives->pool, count_run, &relatives->ran, NULL);
    stint_future *halves[2] = { all_of(relatives->futures, MANY / 2), all_of(relatives->futures + MANY / 2, MANY / 2) };
    stint_future *all = all_of(halves, 2);
    relatives->error = stint_future_wait(all, NULL);
    release_all(relatives->futures, MANY);
    release_all(halves, 2);
    stint_future_release(all);
    return atomic_load(&relatives->ran) == MANY ? 0 : EPROTO;
}

static int await_any_child(void *arg, void **value)
{
    struct relatives *relatives = arg;
    (void)value;
    for (int i = 0; i < MANY; i++)
        relatives->futures[i] = submit(relatives->pool, count_run, &relatives->ran, NULL);
    stint_future *any = any_of(relatives->futures, MANY);
    relatives->error = stint_future_wait(any, NULL);
    relatives->index = index_of(any);
    stint_future_release(any);
    stint_future *all = all_of(relatives->futures, MANY);
    stint_future_wait(all, NULL);
    stint_future_release(all);
    release_all(relatives->futures, MANY);
    return 0;
}

TEST(a_task_may_wait_for_a_compound_of_tasks_that_only_its_worker_could_run)
{
    struct relatives relatives = { .pool = make_pool(.workers = 1) };
    stint_outcome outcome = take(submit(relatives.pool, await_all_children, &relatives, NULL));
    assert_int_equal(outcome.error, 0);
    assert_int_equal(relatives.error, 0);
    atomic_store(&relatives.ran, 0);
    outcome = take(submit(relatives.pool, await_any_child, &relatives, NULL));
    assert_int_equal(outcome.error, 0);
    assert_int_equal(relatives.error, 0);
    assert_true(relatives.index < MANY);
    assert_int_equal(atomic_load(&relatives.ran), MANY);
    assert_int_equal(stint_pool_destroy(relatives.pool), 0);
}

static int await_what_contains_me(void *arg, void **value)
{
    struct relatives *relatives = arg;
    (void)value;
    stint_future *two[2] = { submit(relatives->pool, count_run, &relatives->ran, NULL), relatives->self };
    stint_future *all = all_of(two, 2);
    stint_future *mine = any_of(&two[1], 1);
    stint_future *any = any_of(two, 2);
    relatives->all_error = stint_future_wait(all, NULL);
    relatives->any_error = stint_future_wait(mine, NULL);
    relatives->error = stint_future_wait(any, NULL); /* the other one makes it true */
    stint_future_release(all);
    stint_future_release(mine);
    stint_future_release(any);
    stint_future_release(two[0]);
    return 0;
}

TEST(a_task_that_waits_for_a_compound_of_itself_is_told)
{
    struct relatives relatives = { .pool = make_pool(.workers = 1) };
    assert_int_equal(stint_submit(relatives.pool, await_what_contains_me, &relatives, NULL, &relatives.self), 0);
    assert_int_equal(take(relatives.self).status, STINT_OK);
    assert_int_equal(relatives.all_error, EDEADLK);
    assert_int_equal(relatives.any_error, EDEADLK);
    assert_int_equal(relatives.error, 0);
    assert_int_equal(atomic_load(&relatives.ran), 1);
    assert_int_equal(stint_pool_destroy(relatives.pool), 0);
}

/* --- Cancelled by a callback
 * --------------------------------------------------------------------------------------- */

static void cancel_twice(stint_future *future, const stint_outcome *outcome, void *compound)
{
    (void)future;
    (void)outcome;
    stint_future_cancel(compound);
    stint_future_cancel(compound);
}

/* In a callback the turn of cancelling the members comes later: once. */
TEST(a_compound_that_a_callback_cancels_twice_is_cancelled_once)
{
    stint_pool *pool = make_pool(.workers = 3);
    struct gate first = { 0 }, gate = { 0 };
    stint_future *before = submit(pool, gate_hold, &first, NULL);
    stint_future *members[] = { submit(pool, gate_hold_interruptibly, &gate, NULL),
                                submit(pool, gate_hold_interruptibly, &gate, NULL) };
    gate_await(&first, 1);
    gate_await(&gate, 2);
    stint_future *all = all_of(members, 2);
    assert_int_equal(stint_future_then(before, cancel_twice, all), 0);
    gate_open(&first);
    assert_cancelled(take_in_time(all), STINT_REASON_TOKEN);
    assert_ok(take(before));
    release_all(members, 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
