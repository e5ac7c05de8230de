/* SPDX-License-Identifier: MIT
 *
 * Waits for tasks that wait for something other than a worker: continuations of futures, serial queues, groups,
 * series, times. Such waits give up their places, get help if every thread sleeps, and get an error if they would
 * never end. */
#include "pools.h"

static uint64_t in_ms(unsigned ms)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec + ms * MS;
}

/* --- What a task may wait for ------------------------------------------------------------------------------------- */

/* The waiting task, its argument, and what it makes to wait for. */
struct scene {
    stint_pool *pool;
    stint_pool *beside; /* where others run; may be the same */
    stint_serial *serial;
    stint_group *group;
    stint_future *_Atomic own;   /* the waiter's future */
    stint_future *_Atomic other; /* of who waits for the waiter */
    int (*wait)(struct scene *scene, stint_future *on);
};

static int wait_and_release(stint_future *future)
{
    int error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

static int for_what_follows(struct scene *scene, stint_future *on)
{
    stint_future *next;
    int error = stint_future_then_submit(on, scene->pool, do_nothing_next, NULL, NULL, &next);
    return error != 0 ? error : wait_and_release(next);
}

static int for_what_follows_what_follows(struct scene *scene, stint_future *on)
{
    stint_future *next;
    int error = stint_future_then_submit(on, scene->pool, do_nothing_next, NULL, NULL, &next);
    if (error != 0)
        return error;
    error = for_what_follows(scene, next);
    stint_future_release(next);
    return error;
}

static int for_a_group(struct scene *scene, stint_future *on)
{
    stint_group *group;
    (void)scene;
    int error = stint_group_create(&group);
    if (error != 0)
        return error;
    error = stint_group_add(group, on);
    if (error == 0)
        error = stint_group_wait(group, NULL);
    stint_group_release(group);
    return error;
}

static int for_the_idleness_of_a_group(struct scene *scene, stint_future *on)
{
    stint_group *group;
    stint_future *idle = NULL;
    (void)scene;
    int error = stint_group_create(&group);
    if (error != 0)
        return error;
    error = stint_group_add(group, on);
    if (error == 0)
        error = stint_group_when_idle(group, &idle);
    stint_group_release(group);
    return error != 0 ? error : wait_and_release(idle);
}

static int for_all_of_what_follows(struct scene *scene, stint_future *on)
{
    stint_future *next;
    stint_future *all;
    int error = stint_future_then_submit(on, scene->pool, do_nothing_next, NULL, NULL, &next);
    if (error != 0)
        return error;
    error = stint_when_all(&next, 1, &all);
    stint_future_release(next);
    return error != 0 ? error : wait_and_release(all);
}

static int (*const all_waits[])(struct scene *scene, stint_future *on) = {
    for_what_follows, for_what_follows_what_follows, for_a_group, for_the_idleness_of_a_group, for_all_of_what_follows,
};

#define WAITS (sizeof all_waits / sizeof *all_waits)

/* --- Circles ------------------------------------------------------------------------------------------------------ */

static int wait_for_oneself(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    return scene->wait(scene, await_pointer(&scene->own));
}

TEST(who_waits_for_what_waits_for_itself_is_told)
{
    for (size_t i = 0; i < WAITS; i++) {
        struct scene scene = { .pool = make_pool(.workers = 1), .wait = all_waits[i] };
        atomic_store(&scene.own, submit(scene.pool, wait_for_oneself, &scene, NULL));
        assert_outcome(take_in_time(scene.own), STINT_ERROR, STINT_REASON_FAILED, EDEADLK);
        assert_int_equal(stint_pool_destroy(scene.pool), 0);
    }
}

/* Each waits over something for the other. */
static int wait_for_the_other(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    return scene->wait(scene, await_pointer(&scene->other));
}

static int wait_for_the_first(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    return scene->wait(scene, await_pointer(&scene->own));
}

TEST(one_of_two_that_wait_for_each_other_over_something_is_told)
{
    for (size_t i = 0; i < 2 * WAITS; i++) {
        stint_pool *pool = make_pool(.workers = 2);
        stint_pool *beside = i % 2 == 0 ? pool : make_pool(.workers = 1, .substitutes = STINT_NO_SUBSTITUTES);
        struct scene scene = { .pool = pool, .beside = beside, .wait = all_waits[i / 2] };
        stint_outcome outcomes[2];
        atomic_store(&scene.own, submit(pool, wait_for_the_other, &scene, NULL));
        atomic_store(&scene.other, submit(beside, wait_for_the_first, &scene, NULL));
        assert_int_equal(stint_future_wait_for(scene.own, 60000 * MS, &outcomes[0]), 0);
        assert_int_equal(stint_future_wait_for(scene.other, 60000 * MS, &outcomes[1]), 0);
        assert_int_equal((outcomes[0].error == EDEADLK) + (outcomes[1].error == EDEADLK), 1);
        assert_int_equal((outcomes[0].status == STINT_OK) + (outcomes[1].status == STINT_OK), 1);
        stint_future_release(scene.own);
        stint_future_release(scene.other);
        assert_int_equal(stint_pool_destroy(pool), 0);
        if (beside != pool)
            assert_int_equal(stint_pool_destroy(beside), 0);
    }
}

static int submit_behind_oneself_and_wait(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    int error = stint_serial_submit(scene->serial, do_nothing, NULL, NULL, &future);
    return error != 0 ? error : wait_and_release(future);
}

TEST(who_waits_for_one_behind_it_in_a_serial_queue_is_told)
{
    struct scene scene = { .pool = make_pool(.workers = 1) };
    stint_future *future;
    assert_int_equal(stint_serial_create(scene.pool, 0, &scene.serial), 0);
    assert_int_equal(stint_serial_submit(scene.serial, submit_behind_oneself_and_wait, &scene, NULL, &future), 0);
    assert_outcome(take_in_time(future), STINT_ERROR, STINT_REASON_FAILED, EDEADLK);
    stint_serial_release(scene.serial);
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

struct crossing {
    stint_serial *serials[2];
    atomic_uint begun;
    atomic_uint told;
};

static int wait_behind(struct crossing *crossing, stint_serial *serial)
{
    stint_future *future;
    atomic_fetch_add(&crossing->begun, 1);
    while (atomic_load(&crossing->begun) < 2)
        sched_yield();
    int error = stint_serial_submit(serial, do_nothing, NULL, NULL, &future);
    if (error == 0)
        error = wait_and_release(future);
    atomic_fetch_add(&crossing->told, error == EDEADLK);
    return error;
}

static int wait_behind_the_second(void *arg, void **value)
{
    struct crossing *crossing = arg;
    (void)value;
    return wait_behind(crossing, crossing->serials[1]);
}

static int wait_behind_the_first(void *arg, void **value)
{
    struct crossing *crossing = arg;
    (void)value;
    return wait_behind(crossing, crossing->serials[0]);
}

TEST(one_of_two_that_wait_behind_each_other_in_serial_queues_is_told)
{
    stint_pool *pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
    struct crossing crossing = { .begun = 0 };
    stint_future *futures[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_serial_create(pool, 0, &crossing.serials[i]), 0);
    assert_int_equal(stint_serial_submit(crossing.serials[0], wait_behind_the_second, &crossing, NULL, &futures[0]), 0);
    assert_int_equal(stint_serial_submit(crossing.serials[1], wait_behind_the_first, &crossing, NULL, &futures[1]), 0);
    for (int i = 0; i < 2; i++)
        take_in_time(futures[i]);
    assert_int_equal(atomic_load(&crossing.told), 1);
    for (int i = 0; i < 2; i++)
        stint_serial_release(crossing.serials[i]);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int wait_for_ones_series(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    return stint_future_wait(await_pointer(&scene->own), NULL);
}

TEST(a_turn_that_waits_for_its_series_is_told)
{
    struct scene scene = { .pool = make_pool(.workers = 1) };
    stint_future *series;
    assert_int_equal(stint_submit_every(scene.pool, wait_for_ones_series, &scene, NULL, 1, MS, &series), 0);
    atomic_store(&scene.own, series);
    assert_outcome(take_in_time(series), STINT_ERROR, STINT_REASON_FAILED, EDEADLK);
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

/* --- Help --------------------------------------------------------------------------------------------------------- */

static int submit_and_wait_over_something(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit(scene->pool, do_nothing, NULL, NULL, &future);
    if (error != 0)
        return error;
    error = scene->wait(scene, future);
    stint_future_release(future);
    return error;
}

static int submit_to_a_serial_queue_and_wait_for_the_second(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *futures[2];
    (void)value;
    for (int i = 0; i < 2; i++) {
        int error = stint_serial_submit(scene->serial, do_nothing, NULL, NULL, &futures[i]);
        if (error != 0)
            return error;
    }
    int error = stint_future_wait(futures[1], NULL);
    for (int i = 0; i < 2; i++)
        stint_future_release(futures[i]);
    return error;
}

static int end_the_series(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static int begin_a_series_and_wait(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *series;
    (void)value;
    int error = stint_submit_every(scene->pool, end_the_series, scene, NULL, in_ms(5), MS, &series);
    return error != 0 ? error : wait_and_release(series);
}

static int submit_for_later_and_wait(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit_at(scene->pool, do_nothing, NULL, NULL, in_ms(5), &future);
    return error != 0 ? error : wait_and_release(future);
}

/* One worker and no substitute: no other thread can run the awaited task. */
TEST(the_only_worker_may_wait_for_what_waits_for_something_else)
{
    struct scene scene = { .pool = make_pool(.workers = 1, .substitutes = STINT_NO_SUBSTITUTES) };
    assert_int_equal(stint_serial_create(scene.pool, 0, &scene.serial), 0);
    for (size_t i = 0; i < WAITS; i++) {
        scene.wait = all_waits[i];
        assert_ok(take_in_time(submit(scene.pool, submit_and_wait_over_something, &scene, NULL)));
    }
    assert_ok(take_in_time(submit(scene.pool, submit_to_a_serial_queue_and_wait_for_the_second, &scene, NULL)));
    assert_ok(take_in_time(submit(scene.pool, begin_a_series_and_wait, &scene, NULL)));
    assert_ok(take_in_time(submit(scene.pool, submit_for_later_and_wait, &scene, NULL)));
    stint_serial_release(scene.serial);
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

static int fill_the_queue_and_wait_for_a_turn(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_future *future;
    (void)value;
    while (stint_submit(scene->pool, do_nothing, NULL, NULL, &future) == 0)
        stint_future_release(future);
    int error = stint_serial_submit(scene->serial, do_nothing, NULL, NULL, &future);
    return error != 0 ? error : wait_and_release(future);
}

/* All the pool's threads wait for a task that has no place in the queue, so no thread will ever make room. */
TEST(a_wait_for_what_will_have_no_place_is_given_up)
{
    const stint_pool_options options = {
        .size = sizeof(stint_pool_options), .workers = 1, .substitutes = STINT_NO_SUBSTITUTES, .queue_capacity = 2
    };
    struct scene scene;
    assert_int_equal(stint_pool_create(&options, &scene.pool), 0);
    assert_int_equal(stint_serial_create(scene.pool, 0, &scene.serial), 0);
    assert_outcome(take_in_time(submit(scene.pool, fill_the_queue_and_wait_for_a_turn, &scene, NULL)), STINT_ERROR,
                   STINT_REASON_FAILED, EAGAIN);
    stint_serial_release(scene.serial);
    assert_int_equal(stint_pool_destroy(scene.pool), 0);
}

TEST(what_is_due_and_has_no_place_can_be_cancelled)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
    struct gate gate = { .entered = 0 };
    stint_pool *pool;
    stint_future *futures[4];
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    stint_future *held = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    while (stint_submit(pool, do_nothing, NULL, NULL, &futures[0]) == 0)
        stint_future_release(futures[0]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(stint_submit_at(pool, do_nothing, NULL, NULL, 1, &futures[i]), 0);
    nap_ms(20);
    static const int order[] = { 1, 0, 3 };
    for (size_t i = 0; i < 3; i++) {
        stint_future_cancel(futures[order[i]]);
        assert_true(stint_future_is_ready(futures[order[i]]));
        assert_cancelled(take_in_time(futures[order[i]]), STINT_REASON_TOKEN);
    }
    gate_open(&gate);
    assert_ok(take_in_time(futures[2]));
    assert_ok(take_in_time(submit(pool, do_nothing, NULL, NULL)));
    take_in_time(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* The room of those with an account is full, as its one task that may run does: that holds no other up. */
TEST(what_is_due_does_not_wait_for_places_of_another_kind)
{
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 2, .queue_capacity = 2 };
    stint_options options = STINT_OPTIONS_INIT;
    struct gate gate = { .entered = 0 };
    stint_pool *pool;
    stint_future *due;
    stint_future *plain;
    stint_future *future;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_account_create(NULL,
                                          &(stint_account_limits){ .size = sizeof(stint_account_limits), .running = 1 },
                                          &options.account),
                     0);
    stint_future *held = submit(pool, gate_hold, &gate, &options);
    gate_await(&gate, 1);
    while (stint_submit(pool, do_nothing, NULL, &options, &future) == 0)
        stint_future_release(future);
    assert_int_equal(stint_submit_at(pool, do_nothing, NULL, &options, 1, &due), 0);
    nap_ms(10);
    assert_int_equal(stint_submit_at(pool, do_nothing, NULL, NULL, 1, &plain), 0);
    assert_ok(take_in_time(plain));
    assert_false(stint_future_is_ready(due));
    gate_open(&gate);
    assert_ok(take_in_time(due));
    assert_ok(take_in_time(held));
    stint_account_release(options.account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Places ------------------------------------------------------------------------------------------------------- */

static int for_a_group_and_a_time(struct scene *scene, stint_future *on)
{
    (void)on;
    return stint_group_wait_for(scene->group, 60000 * MS, NULL);
}

static int wait_for_what_is_held(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    return scene->wait(scene, scene->other);
}

TEST(who_waits_gives_its_place_up)
{
    for (size_t i = 0; i <= WAITS; i++) {
        struct gate gate = { .entered = 0 };
        stint_pool *held = make_pool(.workers = 1);
        struct scene scene = { .pool = make_pool(.workers = 1, .substitutes = 1),
                               .wait = i < WAITS ? all_waits[i] : for_a_group_and_a_time };
        atomic_store(&scene.other, submit(held, gate_hold, &gate, NULL));
        assert_int_equal(stint_group_create(&scene.group), 0);
        assert_int_equal(stint_group_add(scene.group, scene.other), 0);
        stint_future *waiter = submit(scene.pool, wait_for_what_is_held, &scene, NULL);
        stint_pool_statistics now = STINT_POOL_STATISTICS_INIT;
        do {
            gate_nap();
            assert_int_equal(stint_pool_read(scene.pool, &now), 0);
        } while (now.asleep == 0);
        assert_ok(take_in_time(submit(scene.pool, do_nothing, NULL, NULL)));
        assert_false(stint_future_is_ready(waiter));
        gate_open(&gate);
        assert_ok(take_in_time(waiter));
        take_in_time(scene.other);
        stint_group_release(scene.group);
        assert_int_equal(stint_pool_destroy(scene.pool), 0);
        assert_int_equal(stint_pool_destroy(held), 0);
    }
}

TEST_MAIN()
