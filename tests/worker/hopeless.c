/* SPDX-License-Identifier: MIT
 *
 * Pools in which every thread sleeps, and which have no substitute left: a thread that waits for a task that has not
 * begun runs it, or gets an error. */
#include "pools.h"

static stint_pool *make_bare_pool(unsigned workers)
{
    return make_pool(.workers = workers, .substitutes = STINT_NO_SUBSTITUTES);
}

/* --- It runs it --------------------------------------------------------------------------------------------------- */

struct scene {
    stint_pool *pool;
    atomic_uint waits; /* tasks that are about to */
    atomic_uint ran;
    atomic_uint begun; /* of those that are to keep a thread each */
    unsigned keepers;
};

static int count(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    atomic_fetch_add(&scene->ran, 1);
    return 0;
}

/* As a rule another thread runs the awaited task: the other one could decide it. */
static int submit_two_and_await_any(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *futures[2];
    stint_future *any;
    (void)value;
    for (int i = 0; i < 2; i++) {
        int error = stint_submit(scene->pool, count, scene, NULL, &futures[i]);
        if (error != 0)
            return error;
    }
    int error = stint_when_any(futures, 2, &any);
    atomic_fetch_add(&scene->waits, 1);
    if (error == 0)
        error = stint_future_wait(any, NULL);
    stint_future_release(any);
    stint_future_release(futures[0]);
    stint_future_release(futures[1]);
    return error;
}

TEST(who_waits_for_any_of_some_runs_one_where_nobody_else_is_left)
{
    struct scene scene = { .pool = make_bare_pool(1) };
    for (unsigned i = 0; i < 20; i++)
        assert_ok(take_in_time(submit(scene.pool, submit_two_and_await_any, &scene, NULL)));
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

/* It is busy until the other one has slept for long, and then in a region until that one has gone on. */
static int sleep_until_they_have_run(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    while (atomic_load(&scene->waits) == 0)
        gate_nap();
    nap_ms(50);
    stint_blocking_begin();
    for (int i = 0; i < 20000 && atomic_load(&scene->ran) == 0; i++)
        nap_ms(1);
    stint_blocking_end();
    return atomic_load(&scene->ran) != 0 ? 0 : ETIMEDOUT;
}

TEST(who_has_waited_for_long_runs_it_when_the_last_other_thread_falls_asleep)
{
    struct scene scene = { .pool = make_bare_pool(2) };
    stint_future *last = submit(scene.pool, sleep_until_they_have_run, &scene, NULL);
    stint_future *first = submit(scene.pool, submit_two_and_await_any, &scene, NULL);
    assert_ok(take_in_time(last));
    assert_ok(take_in_time(first));
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

static int await_delayed(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit_at(scene->pool, count, scene, NULL, now_ns() + 100 * MS, &future);
    if (error == 0)
        error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

TEST(who_waits_for_a_delayed_task_runs_it_when_its_time_has_come)
{
    struct scene scene = { .pool = make_bare_pool(1) };
    assert_ok(take_in_time(submit(scene.pool, await_delayed, &scene, NULL)));
    assert_int_equal(atomic_load(&scene.ran), 1);
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

/* --- It is told --------------------------------------------------------------------------------------------------- */

/* A thread that has not begun its task yet would run what another task waits for. */
static void keep_thread(struct scene *scene)
{
    atomic_fetch_add(&scene->begun, 1);
    while (atomic_load(&scene->begun) < scene->keepers)
        gate_nap();
}

/* Such a wait runs nothing itself. */
static int submit_and_await_for_ever(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    keep_thread(scene);
    int error = stint_submit(scene->pool, count, scene, NULL, &future);
    atomic_fetch_add(&scene->waits, 1);
    if (error == 0)
        error = stint_future_wait_for(future, STINT_FOREVER, NULL);
    stint_future_release(future);
    return error;
}

TEST(a_wait_that_runs_nothing_is_refused_where_nobody_else_is_left)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct scene scene = { .pool = make_bare_pool(workers), .keepers = workers };
        stint_future *futures[3];
        for (unsigned i = 0; i < workers; i++)
            futures[i] = submit(scene.pool, submit_and_await_for_ever, &scene, NULL);
        unsigned refused = 0;
        for (unsigned i = 0; i < workers; i++)
            refused += take_in_time(futures[i]).error == EAGAIN;
        assert_true(refused >= 1); /* one that has ended runs what the others wait for */
        assert_int_equal(stint_pool_shutdown(scene.pool, STINT_SHUTDOWN_DRAIN, 60000 * MS), 0);
        assert_int_equal(atomic_load(&scene.ran), workers);
        assert_int_equal(stint_pool_destroy(scene.pool), 0);
    }
}

struct follower {
    struct scene *scene;
    stint_future *first;
    atomic_uint begun;
};

/* Two of them, at once: the last thread to fall asleep counts as one that has slept for long before the other does. */
static int await_first(void *arg, void **value)
{
    struct follower *follower = arg;
    (void)value;
    keep_thread(follower->scene);
    while (atomic_load(&follower->scene->waits) == 0)
        gate_nap();
    nap_ms(30); /* the first one has looked by then, and found that others run */
    atomic_fetch_add(&follower->begun, 1);
    while (atomic_load(&follower->begun) < 2)
        sched_yield();
    return stint_future_wait(follower->first, NULL);
}

TEST(one_wait_is_refused_when_all_who_wait_for_its_task_have_slept_for_long)
{
    for (int round = 0; round < 5; round++) {
        struct scene scene = { .pool = make_bare_pool(3), .keepers = 3 };
        struct follower follower = { &scene, submit(scene.pool, submit_and_await_for_ever, &scene, NULL), 0 };
        stint_future *second = submit(scene.pool, await_first, &follower, NULL);
        stint_future *third = submit(scene.pool, await_first, &follower, NULL);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait_for(follower.first, 60000 * MS, &outcome), 0);
        assert_int_equal(outcome.error, EAGAIN);
        assert_ok(take_in_time(second));
        assert_ok(take_in_time(third));
        stint_future_release(follower.first);
        assert_int_equal(stint_pool_destroy(scene.pool), 0);
    }
}

struct full_room {
    struct scene scene;
    stint_account *small; /* with one slot */
    stint_account *other;
    unsigned submitted;
};

/* Until there is room for none; all of them are held back by this one's slot. */
static void fill_room(struct full_room *room)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.account = room->small;
    for (unsigned refused = 0; refused < 3;) {
        options.priority = (stint_priority)(room->submitted % 3);
        if (stint_submit(room->scene.pool, count, &room->scene, &options, &future) == 0) {
            stint_future_release(future);
            room->submitted++;
            refused = 0;
        } else {
            room->submitted++;
            refused++;
        }
    }
    room->submitted -= 3;
}

static int fill_room_and_await_delayed(void *arg, void **value)
{
    struct full_room *room = arg;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    (void)value;
    fill_room(room);
    options.account = room->other;
    int error = stint_submit_at(room->scene.pool, count, &room->scene, &options, now_ns() + 30 * MS, &future);
    if (error == 0)
        error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

/* A worker is idle, and the account of what is awaited has all its slots: it is the room that is full. */
TEST(a_wait_for_what_finds_no_place_behind_what_the_waiter_holds_back_is_refused)
{
    struct full_room room = { .scene.pool =
                                  make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES, .queue_capacity = 16),
                              .small = make_account(NULL, .running = 1),
                              .other = make_account(NULL, .running = 1) };
    stint_outcome outcome = take_in_time(submit_for(room.scene.pool, fill_room_and_await_delayed, &room, room.small));
    assert_int_equal(outcome.error, EAGAIN);
    while (atomic_load(&room.scene.ran) < room.submitted + 1)
        gate_nap();
    assert_true(room.submitted >= 16);
    assert_int_equal(stint_pool_destroy(room.scene.pool), 0);
    stint_account_release(room.small);
    stint_account_release(room.other);
}

struct outside {
    struct scene scene;
    stint_future *held; /* by another pool */
};

static int await_held(void *arg, void **value)
{
    struct outside *outside = arg;
    (void)value;
    keep_thread(&outside->scene);
    return stint_future_wait(outside->held, NULL);
}

static int run_that(void *arg, void **value)
{
    struct outside *outside = arg;
    return submit_and_await_for_ever(&outside->scene, value);
}

TEST(a_wait_goes_on_where_another_pool_will_wake_a_thread)
{
    struct gate gate = { 0 };
    stint_pool *other = make_pool(.workers = 1);
    struct outside outside = { .scene = { .pool = make_bare_pool(2), .keepers = 2 },
                               .held = submit(other, gate_hold, &gate, NULL) };
    gate_await(&gate, 1);
    stint_future *first = submit(outside.scene.pool, await_held, &outside, NULL);
    stint_future *second = submit(outside.scene.pool, run_that, &outside, NULL);
    while (atomic_load(&outside.scene.waits) == 0)
        gate_nap();
    nap_ms(100);
    assert_false(stint_future_is_ready(second));
    gate_open(&gate);
    assert_ok(take_in_time(first));
    assert_ok(take_in_time(second));
    stint_future_release(outside.held);
    assert_int_equal(stint_pool_destroy(outside.scene.pool), 0);
    assert_int_equal(stint_pool_destroy(other), 0);
}

TEST_MAIN()
