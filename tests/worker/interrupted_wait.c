/* SPDX-License-Identifier: MIT
 *
 * Events that end a task's sleep in a wait of the library: deadlines, cancellations, shutdowns, in each way of being
 * interrupted. Events that do not, under a mask. The signals for a sleeping task reach no other thread. */
#include "pools.h"

/* Everything here waits for events that only the test makes, so a wait that nothing ends is never over. */
struct scene {
    stint_pool *other; /* has one worker, which the gate holds */
    struct gate gate;
    stint_future *held;
    stint_future *later;  /* starts in a year */
    stint_future *next;   /* starts when the held one has ended */
    stint_future *due;    /* its turn has come, but there is no place */
    stint_future *behind; /* has its turn after that */
    stint_future *idle;   /* the group's, of which the held one is */
    stint_group *group;
    stint_serial *serial;
    stint_mutex mutex;
    int (*sleep)(struct scene *scene);
    bool masked;
    struct gate begun;
    atomic_uint guarded;
    atomic_int answer;
};

/* --- The waits ---------------------------------------------------------------------------------------------------- */

static int in_a_wait(struct scene *scene)
{
    return stint_future_wait(scene->held, NULL);
}

static int in_a_timed_wait(struct scene *scene)
{
    return stint_future_wait_for(scene->held, 100000 * MS, NULL);
}

static int in_a_wait_for_a_compound(struct scene *scene)
{
    stint_future *all;
    int error = stint_when_all(&scene->held, 1, &all);
    if (error != 0)
        return error;
    stint_guard guard;
    stint_guard_push(&guard, (void (*)(void *))stint_future_release, all);
    error = stint_future_wait(all, NULL);
    stint_guard_pop(&guard, true);
    return error;
}

/* Its queue is full. */
static int in_a_wait_for_a_place(struct scene *scene)
{
    stint_future *future;
    int error = stint_submit_wait(scene->other, do_nothing, NULL, NULL, STINT_FOREVER, &future);
    if (error == 0)
        stint_future_release(future);
    return error;
}

static int in_a_wait_for_a_mutex(struct scene *scene)
{
    int error = stint_mutex_lock(&scene->mutex);
    if (error == 0)
        stint_mutex_unlock(&scene->mutex);
    return error;
}

static int in_a_wait_for_a_time(struct scene *scene)
{
    return stint_future_wait(scene->later, NULL);
}

static int in_a_wait_for_what_follows(struct scene *scene)
{
    return stint_future_wait(scene->next, NULL);
}

static int in_a_wait_for_one_that_is_due(struct scene *scene)
{
    return stint_future_wait(scene->due, NULL);
}

static int in_a_wait_for_a_turn(struct scene *scene)
{
    return stint_future_wait(scene->behind, NULL);
}

static int in_a_wait_for_a_group(struct scene *scene)
{
    return stint_group_wait(scene->group, NULL);
}

static int in_a_timed_wait_for_a_group(struct scene *scene)
{
    return stint_group_wait_for(scene->group, 100000 * MS, NULL);
}

static int in_a_wait_for_idleness(struct scene *scene)
{
    return stint_future_wait(scene->idle, NULL);
}

static int in_a_shutdown(struct scene *scene)
{
    return stint_pool_shutdown(scene->other, STINT_SHUTDOWN_DRAIN, STINT_FOREVER);
}

static int (*const all_waits[])(struct scene *scene) = {
    in_a_wait,
    in_a_timed_wait,
    in_a_wait_for_a_compound,
    in_a_wait_for_a_place,
    in_a_wait_for_a_mutex,
    in_a_shutdown,
    in_a_wait_for_a_time,
    in_a_wait_for_what_follows,
    in_a_wait_for_one_that_is_due,
    in_a_wait_for_a_turn,
    in_a_wait_for_a_group,
    in_a_timed_wait_for_a_group,
    in_a_wait_for_idleness,
};

#define WAITS (sizeof all_waits / sizeof *all_waits)

/* Those after these sleep as the first does, each for something else: one variant of each test is enough. */
#define THOROUGH 6

static bool is_left_out(size_t wait, size_t variant, size_t variants)
{
    return wait >= THOROUGH && variant != wait % variants;
}

static int wait_with_a_guard(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_guard guard;
    (void)value;
    stint_guard_push(&guard, (void (*)(void *))gate_open, &scene->begun); /* no task waits for it: a mark */
    if (scene->masked)
        stint_mask();
    atomic_fetch_add(&scene->begun.entered, 1);
    int error = scene->sleep(scene);
    atomic_store(&scene->answer, error);
    if (scene->masked)
        stint_unmask();
    stint_guard_pop(&guard, true);
    return error;
}

static void delay_tasks(struct scene *scene)
{
    uint64_t year = UINT64_C(365) * 24 * 3600 * 1000 * MS;
    assert_int_equal(stint_submit_at(scene->other, do_nothing, NULL, NULL, year, &scene->later), 0);
    assert_int_equal(stint_future_then_submit(scene->held, scene->other, do_nothing_next, NULL, NULL, &scene->next), 0);
    assert_int_equal(stint_serial_create(scene->other, 0, &scene->serial), 0);
    assert_int_equal(stint_serial_submit(scene->serial, do_nothing, NULL, NULL, &scene->due), 0);
    assert_int_equal(stint_serial_submit(scene->serial, do_nothing, NULL, NULL, &scene->behind), 0);
    assert_int_equal(stint_group_create(&scene->group), 0);
    assert_int_equal(stint_group_add(scene->group, scene->held), 0);
    assert_int_equal(stint_group_when_idle(scene->group, &scene->idle), 0);
}

static void release_delayed(struct scene *scene)
{
    stint_future_release(scene->later);
    stint_future_release(scene->next);
    stint_future_release(scene->due);
    stint_future_release(scene->behind);
    stint_future_release(scene->idle);
    stint_serial_release(scene->serial);
    stint_group_release(scene->group);
}

static void set_scene(struct scene *scene, int (*sleep)(struct scene *scene))
{
    memset(scene, 0, sizeof *scene);
    scene->sleep = sleep;
    atomic_store(&scene->answer, -1);
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
    assert_int_equal(stint_pool_create(&options, &scene->other), 0);
    scene->held = submit(scene->other, gate_hold, &scene->gate, NULL);
    gate_await(&scene->gate, 1);
    stint_future *future;
    while (stint_submit(scene->other, do_nothing, NULL, NULL, &future) == 0)
        stint_future_release(future);
    delay_tasks(scene);
    assert_int_equal(stint_mutex_init(&scene->mutex), 0);
    assert_int_equal(stint_mutex_lock(&scene->mutex), 0);
}

static void clear_scene(struct scene *scene)
{
    gate_open(&scene->gate);
    stint_mutex_unlock(&scene->mutex);
    assert_int_equal(stint_mutex_destroy(&scene->mutex), 0);
    assert_int_equal(stint_pool_destroy(scene->other), 0);
    stint_future_release(scene->held);
    release_delayed(scene);
}

/* --- What ends them ----------------------------------------------------------------------------------------------- */

static const stint_on_interrupt every_way[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };

static void assert_left(struct scene *scene, stint_on_interrupt how)
{
    assert_true(atomic_load(&scene->begun.open));
    assert_int_equal(atomic_load(&scene->answer), how == STINT_FAIL ? ECANCELED : -1);
}

TEST(a_deadline_ends_every_wait)
{
    for (size_t i = 0; i < 6 * WAITS; i++) {
        if (is_left_out(i / 6, i % 6, 6))
            continue;
        struct scene scene;
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = every_way[i % 3];
        options.preemptible = i / 3 % 2 == 0;
        set_scene(&scene, all_waits[i / 6]);
        stint_pool *pool = make_pool(.workers = 1);
        /* From the task's start: on a busy machine it would have expired before that. And it may pass before the
         * wait. */
        for (options.budget.run_ns = 20 * MS; atomic_load(&scene.begun.entered) == 0; options.budget.run_ns *= 2)
            assert_outcome(take_in_time(submit(pool, wait_with_a_guard, &scene, &options)), STINT_ERROR,
                           STINT_REASON_DEADLINE, ETIMEDOUT);
        assert_left(&scene, options.on_interrupt);
        assert_int_equal(stint_pool_destroy(pool), 0);
        clear_scene(&scene);
    }
}

TEST(a_cancellation_ends_every_wait)
{
    for (size_t i = 0; i < 3 * WAITS; i++) {
        if (is_left_out(i / 3, i % 3, 3))
            continue;
        struct scene scene;
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = every_way[i % 3];
        set_scene(&scene, all_waits[i / 3]);
        stint_pool *pool = make_pool(.workers = 1);
        stint_future *future = submit(pool, wait_with_a_guard, &scene, &options);
        gate_await(&scene.begun, 1);
        nap_ms(i % 2 * 30);
        stint_future_cancel(future);
        assert_cancelled(take_in_time(future), STINT_REASON_TOKEN);
        assert_left(&scene, options.on_interrupt);
        assert_int_equal(stint_pool_destroy(pool), 0);
        clear_scene(&scene);
    }
}

TEST(the_end_of_its_pool_ends_every_wait)
{
    for (size_t i = 0; i < 3 * WAITS; i++) {
        if (is_left_out(i / 3, i % 3, 3))
            continue;
        struct scene scene;
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = every_way[i % 3];
        set_scene(&scene, all_waits[i / 3]);
        stint_pool *pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES);
        stint_future *future = submit(pool, wait_with_a_guard, &scene, &options);
        gate_await(&scene.begun, 1);
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_cancelled(take_in_time(future), STINT_REASON_SHUTDOWN);
        assert_left(&scene, options.on_interrupt);
        clear_scene(&scene);
    }
}

TEST(a_deadline_ends_a_wait_in_a_plain_scope)
{
    for (size_t i = 0; i < WAITS; i++) {
        struct scene scene;
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.wall_ns = 20 * MS;
        set_scene(&scene, all_waits[i]);
        /* The mutex is this thread's already. */
        if (all_waits[i] != in_a_wait_for_a_mutex)
            assert_outcome(run_task(wait_with_a_guard, &scene, &options), STINT_ERROR, STINT_REASON_DEADLINE,
                           ETIMEDOUT);
        clear_scene(&scene);
    }
}

/* Two that wait for each other in two pools, each with a time-out that never comes: no circle, but both have a
 * deadline. */
struct both {
    stint_future *_Atomic futures[2];
};

static int await_second(void *arg, void **value)
{
    struct both *both = arg;
    (void)value;
    return stint_future_wait_for(await_pointer(&both->futures[1]), 100000 * MS, NULL);
}

static int await_first(void *arg, void **value)
{
    struct both *both = arg;
    (void)value;
    return stint_future_wait_for(await_pointer(&both->futures[0]), 100000 * MS, NULL);
}

TEST(two_that_wait_for_each_other_end_at_their_deadlines)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct both both = { .futures = { NULL } };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 100 * MS;
    atomic_store(&both.futures[0], submit(pool, await_second, &both, &options));
    atomic_store(&both.futures[1], submit(pool, await_first, &both, &options));
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_future_wait_for(both.futures[i], 60000 * MS, NULL), 0);
    for (int i = 0; i < 2; i++)
        stint_future_release(both.futures[i]);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Subtasks ----------------------------------------------------------------------------------------------------- */

static int wait_in_a_part(void *arg, void **value)
{
    return wait_with_a_guard(arg, value);
}

static int fork_a_wait(void *arg, void **value)
{
    struct scene *scene = arg;
    stint_subtask part;
    (void)value;
    stint_fork(&part, wait_in_a_part, scene);
    have_stolen(&scene->begun.entered);
    return stint_join(&part, NULL);
}

TEST(a_stolen_subtask_is_interrupted_in_its_wait_like_its_task)
{
    for (size_t i = 0; i < 2 * WAITS; i++) {
        if (is_left_out(i / 2, i % 2, 2))
            continue;
        struct scene scene;
        set_scene(&scene, all_waits[i / 2]);
        stint_pool *pool = make_pool(.workers = 2);
        stint_future *future = submit(pool, fork_a_wait, &scene, NULL);
        gate_await(&scene.begun, 1);
        nap_ms(i % 2 * 30);
        stint_future_cancel(future);
        assert_cancelled(take_in_time(future), STINT_REASON_TOKEN);
        assert_left(&scene, STINT_JUMP);
        assert_int_equal(stint_pool_destroy(pool), 0);
        clear_scene(&scene);
    }
}

/* --- What does not ------------------------------------------------------------------------------------------------ */

TEST(a_masked_wait_goes_on_and_the_interrupt_comes_after_it)
{
    static int (*const waits[])(struct scene * scene) = { in_a_wait, in_a_timed_wait, in_a_wait_for_a_place };
    for (size_t i = 0; i < 6; i++) {
        struct scene scene;
        stint_options options = STINT_OPTIONS_INIT;
        options.preemptible = i % 2 == 0;
        set_scene(&scene, waits[i / 2]);
        scene.masked = true;
        stint_pool *pool = make_pool(.workers = 1);
        stint_future *future = submit(pool, wait_with_a_guard, &scene, &options);
        gate_await(&scene.begun, 1);
        stint_future_cancel(future);
        nap_ms(60);
        assert_false(stint_future_is_ready(future));
        assert_int_equal(atomic_load(&scene.answer), -1);
        gate_open(&scene.gate);
        assert_cancelled(take_in_time(future), STINT_REASON_TOKEN);
        assert_int_equal(atomic_load(&scene.answer), 0);
        assert_int_equal(stint_pool_destroy(pool), 0);
        clear_scene(&scene);
    }
}

/* A passed deadline shuts out no other task for ever: a masked task counts as running, and the call returns. */
TEST(a_shutdown_with_a_time_limit_returns_whatever_is_left)
{
    struct scene scene;
    set_scene(&scene, in_a_wait);
    scene.masked = true;
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *future = submit(pool, wait_with_a_guard, &scene, NULL);
    gate_await(&scene.begun, 1);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN_THEN_CANCEL, MS), ETIMEDOUT);
    stint_pool_statistics left = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(pool, &left), 0);
    assert_int_equal(left.running, 1);
    assert_int_equal(left.asleep, 1);
    gate_open(&scene.gate);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN_THEN_CANCEL, 60000 * MS), 0);
    assert_int_equal(stint_pool_read(pool, &left), 0);
    assert_int_equal(left.running, 0);
    assert_int_equal(left.asleep, 0);
    take_in_time(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    clear_scene(&scene);
}

/* --- Signals ------------------------------------------------------------------------------------------------------ */

struct nested {
    stint_pool *pool;
    int interrupted; /* system calls of the task on top */
    stint_future *future;
};

static int sleep_in_a_system_call(void *arg, void **value)
{
    struct nested *nested = arg;
    struct timespec left = { .tv_nsec = 300000000 };
    (void)value;
    while (nanosleep(&left, &left) != 0)
        nested->interrupted++;
    return 0;
}

static int submit_and_await_a_sleeper(void *arg, void **value)
{
    struct nested *nested = arg;
    (void)value;
    int error = stint_submit(nested->pool, sleep_in_a_system_call, nested, NULL, &nested->future);
    return error != 0 ? error : stint_future_wait(nested->future, NULL);
}

/* The one below is due for most of the time, and is interrupted when it goes on. */
TEST(what_runs_on_top_of_a_task_that_is_due_is_left_alone)
{
    struct nested nested = { make_pool(.workers = 1), 0, NULL };
    stint_options options = STINT_OPTIONS_INIT;
    options.preemptible = true;
    options.budget.run_ns = 50 * MS;
    const stint_outcome outcome = take_in_time(submit(nested.pool, submit_and_await_a_sleeper, &nested, &options));
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(nested.interrupted, 0);
    stint_future_release(nested.future);
    assert_int_equal(stint_pool_destroy(nested.pool), 0);
}

TEST_MAIN()
