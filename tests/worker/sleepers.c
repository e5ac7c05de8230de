/* SPDX-License-Identifier: MIT
 *
 * Tasks that sleep: however they sleep, others run in their place, and their submitted and forked tasks are reached. */
#include "pools.h"

/* --- Places ------------------------------------------------------------------------------------------------------- */

/* The one task sleeps, and the other ends the sleep: so the other must run meanwhile, in the sleeper's place. */
struct scene {
    stint_pool *pool; /* of one worker */
    stint_pool *other;
    struct gate gate;
    stint_future *held; /* by the gate, in the other pool, whose queue is full */
    stint_mutex mutex;
    struct gate begun;
    atomic_uint parts; /* begun */
};

static int in_a_wait(struct scene *scene)
{
    return stint_future_wait(scene->held, NULL);
}

static int in_a_timed_wait(struct scene *scene)
{
    return stint_future_wait_for(scene->held, 100000 * MS, NULL);
}

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
    return error == 0 ? stint_mutex_unlock(&scene->mutex) : error;
}

static int in_a_shutdown(struct scene *scene)
{
    return stint_pool_shutdown(scene->other, STINT_SHUTDOWN_DRAIN, STINT_FOREVER);
}

static int part_that_waits(void *arg, void **value)
{
    struct scene *scene = arg;
    (void)value;
    atomic_fetch_add(&scene->parts, 1);
    return in_a_wait(scene);
}

/* The part is taken while the task sleeps in a region, as a worker that is asked shares what it has forked; then the
 * task sleeps in the join. */
static int in_a_join(struct scene *scene)
{
    stint_subtask part;
    stint_fork(&part, part_that_waits, scene);
    stint_blocking_begin();
    while (atomic_load(&scene->parts) == 0)
        gate_nap();
    stint_blocking_end();
    return stint_join(&part, NULL);
}

static int (*const all_waits[])(struct scene *scene) = {
    in_a_wait, in_a_timed_wait, in_a_wait_for_a_place, in_a_wait_for_a_mutex, in_a_shutdown, in_a_join,
};

#define WAITS (sizeof all_waits / sizeof *all_waits)

struct sleep {
    struct scene *scene;
    int (*wait)(struct scene *scene);
};

static int sleep_in_it(void *arg, void **value)
{
    const struct sleep *sleep = arg;
    (void)value;
    gate_hold(&sleep->scene->begun, value); /* whose gate is open */
    return sleep->wait(sleep->scene);
}

static void *hold_mutex(void *arg)
{
    struct scene *scene = arg;
    stint_mutex_lock(&scene->mutex);
    atomic_fetch_add(&scene->begun.entered, 1);
    while (!atomic_load(&scene->gate.open))
        gate_nap();
    stint_mutex_unlock(&scene->mutex);
    return NULL;
}

static int open_gate(void *arg, void **value)
{
    (void)value;
    gate_open(arg);
    return 0;
}

TEST(whoever_sleeps_gives_his_place_to_others)
{
    for (size_t i = 0; i < 2 * WAITS; i++) {
        struct scene scene = { .pool = make_pool(.workers = 1, .substitutes = i % 2 == 0 ? 0 : 3) };
        struct sleep sleep = { &scene, all_waits[i / 2] };
        const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
        assert_int_equal(stint_pool_create(&options, &scene.other), 0);
        assert_int_equal(stint_mutex_init(&scene.mutex), 0);
        scene.held = submit(scene.other, gate_hold, &scene.gate, NULL);
        gate_await(&scene.gate, 1);
        stint_future *future;
        while (stint_submit(scene.other, do_nothing, NULL, NULL, &future) == 0)
            stint_future_release(future);
        pthread_t holder;
        gate_open(&scene.begun);
        assert_int_equal(pthread_create(&holder, NULL, hold_mutex, &scene), 0);
        gate_await(&scene.begun, 1);
        stint_future *sleeper = submit(scene.pool, sleep_in_it, &sleep, NULL);
        gate_await(&scene.begun, 2);
        stint_future *opener = submit(scene.pool, open_gate, &scene.gate, NULL);
        assert_ok(take_in_time(opener));
        assert_ok(take_in_time(sleeper));
        pthread_join(holder, NULL);
        assert_int_equal(stint_pool_destroy(scene.pool), 0);
        assert_int_equal(stint_pool_destroy(scene.other), 0);
        stint_future_release(scene.held);
        assert_int_equal(stint_mutex_destroy(&scene.mutex), 0);
    }
}

/* --- Rescues through joins ---------------------------------------------------------------------------------------- */

struct parted {
    stint_pool *pool;
    atomic_uint begun;
};

/* The pool has no substitutes: the thief sleeps here, and the owner in its join. */
static int submit_two_and_await_any(void *arg, void **value)
{
    struct parted *parted = arg;
    stint_future *futures[2];
    stint_future *any;
    (void)value;
    atomic_store(&parted->begun, 1);
    nap_ms(20);
    for (int i = 0; i < 2; i++) {
        if (stint_submit(parted->pool, do_nothing, NULL, NULL, &futures[i]) != 0)
            return EPROTO;
    }
    int error = stint_when_any(futures, 2, &any);
    if (error == 0)
        error = stint_future_wait(any, NULL);
    stint_future_release(any);
    stint_future_release(futures[0]);
    stint_future_release(futures[1]);
    return error;
}

static int fork_and_join(void *arg, void **value)
{
    struct parted *parted = arg;
    stint_subtask part;
    (void)value;
    stint_fork(&part, submit_two_and_await_any, parted);
    have_stolen(&parted->begun);
    return stint_join(&part, NULL);
}

TEST(a_pool_without_spares_whose_threads_wait_and_join_goes_on)
{
    for (int round = 0; round < 20; round++) {
        struct parted parted = { .pool = make_pool(.workers = 2, .substitutes = STINT_NO_SUBSTITUTES) };
        assert_ok(take_in_time(submit(parted.pool, fork_and_join, &parted, NULL)));
        assert_int_equal(stint_pool_destroy(parted.pool), 0);
    }
}

/* --- Deques ------------------------------------------------------------------------------------------------------- */

/* The submission queue is never empty: each of its tasks submits, from a thread outside, the next. */
struct flood {
    stint_pool *pool;
    atomic_bool over;
    pthread_t feeders[4];
};

static int be_busy(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (volatile int i = 0; i < 20000; i++)
        ;
    return 0;
}

static void *feed(void *arg)
{
    struct flood *flood = arg;
    stint_future *future;
    while (!atomic_load(&flood->over)) {
        if (stint_submit_wait(flood->pool, be_busy, NULL, NULL, 1000 * MS, &future) == 0)
            stint_future_release(future);
    }
    return NULL;
}

struct child {
    struct flood *flood;
    bool region;
    atomic_bool ran;
};

static int be_the_child(void *arg, void **value)
{
    struct child *child = arg;
    (void)value;
    atomic_store(&child->ran, true);
    return 0;
}

/* Until the child has run, which only another worker can do. */
static int submit_and_sleep(void *arg, void **value)
{
    struct child *child = arg;
    stint_future *future;
    (void)value;
    int error = stint_submit(child->flood->pool, be_the_child, child, NULL, &future);
    if (error != 0)
        return error;
    if (child->region) {
        stint_blocking_begin();
        for (int i = 0; i < 20000 && !atomic_load(&child->ran); i++)
            nap_ms(1);
        stint_blocking_end();
        error = atomic_load(&child->ran) ? 0 : ETIMEDOUT;
    } else {
        error = stint_future_wait_for(future, 20000 * MS, NULL);
    }
    stint_future_release(future);
    return error;
}

TEST(what_a_sleeping_task_has_submitted_is_reached_beside_a_queue_that_is_never_empty)
{
    for (int i = 0; i < 4; i++) {
        const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2, .queue_capacity = 64 };
        struct flood flood = { .over = false };
        struct child child = { .flood = &flood, .region = i % 2 != 0 };
        assert_int_equal(stint_pool_create(&options, &flood.pool), 0);
        for (int feeder = 0; feeder < 4; feeder++)
            assert_int_equal(pthread_create(&flood.feeders[feeder], NULL, feed, &flood), 0);
        nap_ms(20);
        stint_future *parent;
        assert_int_equal(stint_submit_wait(flood.pool, submit_and_sleep, &child, NULL, 60000 * MS, &parent), 0);
        assert_ok(take_in_time(parent));
        atomic_store(&flood.over, true);
        for (int feeder = 0; feeder < 4; feeder++)
            pthread_join(flood.feeders[feeder], NULL);
        assert_int_equal(stint_pool_destroy(flood.pool), 0);
    }
}

/* One a worker: each of them submits itself again, and is the newest then. */
struct loop {
    stint_pool *pool;
    atomic_bool over;
    struct gate begun;
    bool with_account; /* entries below are seen although tasks with accounts wait too */
    stint_account *account;
    atomic_uint turns;
};

static int go_round(void *arg, void **value)
{
    struct loop *loop = arg;
    stint_future *future;
    (void)value;
    if (atomic_load(&loop->over))
        return 0;
    atomic_fetch_add(&loop->turns, 1);
    if (stint_submit(loop->pool, go_round, loop, NULL, &future) == 0)
        stint_future_release(future);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = loop->account;
    if (loop->with_account && stint_submit(loop->pool, do_nothing, NULL, &options, &future) == 0)
        stint_future_release(future);
    return 0;
}

#define BELOW 100

struct below {
    struct loop *loop;
    atomic_uint ran;
};

static int count_below(void *arg, void **value)
{
    struct below *below = arg;
    (void)value;
    atomic_fetch_add(&below->ran, 1);
    return 0;
}

static int begin_round(void *arg, void **value)
{
    struct below *below = arg;
    stint_future *future;
    for (int i = 0; i < BELOW; i++) {
        if (stint_submit(below->loop->pool, count_below, below, NULL, &future) != 0)
            return EAGAIN;
        stint_future_release(future);
    }
    gate_hold(&below->loop->begun, value);
    return go_round(below->loop, value);
}

TEST(what_lies_below_is_reached_while_tasks_submit_themselves_again)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (int with_account = 0; with_account < 2; with_account++) {
            struct loop loop = { .pool = make_pool(.workers = workers), .with_account = with_account != 0 };
            struct below below = { .loop = &loop };
            stint_future *futures[2];
            assert_int_equal(stint_account_create(NULL, NULL, &loop.account), 0);
            for (unsigned i = 0; i < workers; i++)
                futures[i] = submit(loop.pool, begin_round, &below, NULL);
            gate_await(&loop.begun, workers);
            gate_open(&loop.begun);
            for (int i = 0; i < 20000 && atomic_load(&below.ran) < workers * BELOW; i++)
                nap_ms(1);
            assert_int_equal(atomic_load(&below.ran), workers * BELOW);
            atomic_store(&loop.over, true);
            for (unsigned i = 0; i < workers; i++)
                take_in_time(futures[i]);
            assert_int_equal(stint_pool_destroy(loop.pool), 0);
            stint_account_release(loop.account);
        }
    }
}

/* --- Forks -------------------------------------------------------------------------------------------------------- */

#define FORKS 6

struct forked {
    struct scene *scene;
    int how;
    atomic_uint ran; /* while the owner slept */
};

static int count_fork(void *arg, void **value)
{
    struct forked *forked = arg;
    (void)value;
    atomic_fetch_add(&forked->ran, 1);
    return 0;
}

static void await_all_forks(struct forked *forked)
{
    for (int i = 0; i < 20000 && atomic_load(&forked->ran) < FORKS; i++)
        nap_ms(1);
}

static int open_gate_after_all(void *arg, void **value)
{
    struct forked *forked = arg;
    stint_blocking_begin();
    await_all_forks(forked);
    stint_blocking_end();
    return open_gate(&forked->scene->gate, value);
}

static int fork_and_sleep(void *arg, void **value)
{
    struct forked *forked = arg;
    stint_subtask forks[FORKS];
    unsigned ran;
    (void)value;
    for (int i = 0; i < FORKS; i++)
        stint_fork(&forks[i], count_fork, forked);
    if (forked->how == 0) {
        stint_blocking_begin();
        await_all_forks(forked);
        stint_blocking_end();
    } else if (forked->how == 1) {
        stint_future_wait(forked->scene->held, NULL);
    } else {
        stint_future_wait_for(forked->scene->held, 100000 * MS, NULL);
    }
    ran = atomic_load(&forked->ran);
    for (int i = FORKS; i-- > 0;)
        stint_join(&forks[i], NULL);
    return ran == FORKS ? 0 : EPROTO;
}

TEST(what_a_sleeping_task_has_forked_is_done_by_others)
{
    for (int how = 0; how < 3; how++) {
        for (unsigned workers = 1; workers <= 2; workers++) {
            struct scene scene = { .pool = make_pool(.workers = workers), .other = make_pool(.workers = 2) };
            struct forked forked = { .scene = &scene, .how = how };
            scene.held = submit(scene.other, gate_hold, &scene.gate, NULL);
            gate_await(&scene.gate, 1);
            stint_future *opener = submit(scene.other, open_gate_after_all, &forked, NULL);
            assert_ok(take_in_time(submit(scene.pool, fork_and_sleep, &forked, NULL)));
            take_in_time(opener);
            take_in_time(scene.held);
            assert_int_equal(stint_pool_destroy(scene.pool), 0);
            assert_int_equal(stint_pool_destroy(scene.other), 0);
        }
    }
}

TEST_MAIN()
