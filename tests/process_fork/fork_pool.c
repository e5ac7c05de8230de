/* SPDX-License-Identifier: MIT
 *
 * Forks of a process that has pools, while their threads and others allocate: the child can allocate, run tasks, and
 * have pools of its own; its parent's are refused with EOWNERDEAD; and it never hangs. */
#include <signal.h>

#include "pools.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */

static stint_pool *try_to_make_pool(void)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2 };
    return stint_pool_create(&options, &pool) == 0 ? pool : NULL;
}

static int allocate(void *arg, void **value)
{
    (void)arg;
    void *blocks[100] = { NULL };
    unsigned seed = 1;
    for (int i = 0; i < 1000; i++) {
        int at = rand_r(&seed) % 100;
        free(blocks[at]);
        blocks[at] = malloc((size_t)(rand_r(&seed) % 5000));
    }
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    *value = malloc(100);
    return 0;
}

/* In the child; 0, or the number of the step that went wrong. */
static int use_a_pool_of_its_own(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = UINT64_C(10000000000);
    stint_pool *pool = try_to_make_pool();
    if (pool == NULL)
        return 10;
    for (int i = 0; i < 8; i++) {
        stint_future *future;
        stint_outcome outcome;
        if (stint_submit(pool, allocate, NULL, &options, &future) != 0)
            return 11;
        if (stint_future_wait(future, &outcome) != 0 || outcome.status != STINT_OK)
            return 12;
        free(outcome.value);
        stint_future_release(future);
    }
    stint_outcome outcome;
    if (stint_run(allocate, NULL, &options, &outcome) != 0 || outcome.status != STINT_OK)
        return 13;
    free(outcome.value);
    return stint_pool_destroy(pool) == 0 ? 0 : 14;
}

static int meet_its_parent_s(stint_pool *pool, stint_future *running, stint_future *queued, stint_future *ready)
{
    stint_future *future = NULL;
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    if (stint_submit(pool, allocate, NULL, NULL, &future) != EOWNERDEAD ||
        stint_submit_wait(pool, allocate, NULL, NULL, STINT_FOREVER, &future) != EOWNERDEAD || future != NULL)
        return 1;
    if (stint_future_wait(running, NULL) != EOWNERDEAD || stint_future_wait(queued, NULL) != EOWNERDEAD)
        return 2;
    if (stint_future_wait_for(queued, STINT_FOREVER, NULL) != EOWNERDEAD)
        return 3;
    stint_future_cancel(running);
    stint_future_cancel(queued);
    stint_outcome outcome;
    if (stint_future_wait(ready, &outcome) != 0 || outcome.status != STINT_OK)
        return 4;
    stint_future_release(queued);
    stint_future_release(ready);
    if (stint_pool_read(pool, &statistics) != EOWNERDEAD)
        return 5;
    if (stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER) != EOWNERDEAD ||
        stint_pool_destroy(pool) != EOWNERDEAD)
        return 6;
    return 0;
}

TEST(a_child_has_pools_of_its_own_and_none_of_its_parent_s)
{
    stint_pool *pool = try_to_make_pool();
    struct gate gate = { 0 };
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_future *ready, *running[2], *queued[2];
    assert_int_equal(stint_submit(pool, allocate, NULL, NULL, &ready), 0);
    assert_int_equal(stint_future_wait(ready, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &running[i]), 0);
    gate_await(&gate, 2);
    assert_int_equal(stint_submit(pool, allocate, NULL, NULL, &queued[0]), 0);
    assert_int_equal(stint_submit(pool, allocate, NULL, &options, &queued[1]), 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            int error = meet_its_parent_s(pool, running[i], queued[i], ready);
            _exit(error != 0 ? error : use_a_pool_of_its_own());
        }
        assert_ends_well(child);
    }
    gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(running[i], &outcome), 0);
        assert_int_equal(outcome.status, STINT_OK);
        assert_int_equal(stint_future_wait(queued[i], &outcome), 0);
        assert_int_equal(outcome.status, STINT_OK);
        stint_future_release(running[i]);
        stint_future_release(queued[i]);
    }
    stint_future_release(ready);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

/* --- While everything moves --------------------------------------------------------------------------------------- */

static atomic_bool enough;

static void *allocate_on_and_on(void *arg)
{
    void *value;
    while (!atomic_load(&enough)) {
        allocate(arg, &value);
        free(value);
    }
    return NULL;
}

static void *submit_on_and_on(void *arg)
{
    stint_account *account;
    if (stint_account_create(NULL, NULL, &account) != 0)
        return NULL;
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.account = i % 2 == 0 ? account : NULL;
        options.priority = (stint_priority)(i % 3);
        options.budget.wall_ns = UINT64_C(1000000000);
        stint_future *future;
        stint_outcome outcome;
        if (stint_submit(arg, allocate, NULL, &options, &future) != 0)
            continue;
        if (stint_future_wait(future, &outcome) == 0 && outcome.status == STINT_OK)
            free(outcome.value);
        stint_future_release(future);
    }
    stint_account_release(account);
    return NULL;
}

#define FORKS 40

TEST(a_child_never_hangs_whatever_was_under_way)
{
    stint_pool *pool = try_to_make_pool();
    pthread_t threads[4];
    atomic_store(&enough, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? allocate_on_and_on : submit_on_and_on, pool), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            _exit(use_a_pool_of_its_own());
        }
        assert_ends_well(child);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- From inside a task ------------------------------------------------------------------------------------------- */

static int fork_inside(void *arg, void **value)
{
    stint_pool *pool = arg;
    pid_t child = fork();
    if (child == 0) {
        end_if_it_hangs(PATIENCE);
        stint_future *future;
        if (stint_submit(pool, allocate, NULL, NULL, &future) != EOWNERDEAD)
            _exit(1);
        _exit(use_a_pool_of_its_own());
    }
    *value = (void *)(intptr_t)child;
    return child > 0 ? 0 : errno;
}

static int fork_and_return(void *arg, void **value)
{
    (void)arg;
    pid_t child = fork();
    if (child == 0)
        end_if_it_hangs(PATIENCE);
    *value = (void *)(intptr_t)child;
    return child >= 0 ? 0 : errno;
}

TEST(a_task_may_fork)
{
    stint_fn *const functions[] = { fork_inside, fork_and_return };
    for (int i = 0; i < 2; i++) {
        stint_pool *pool = try_to_make_pool();
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, functions[i], pool, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.status, STINT_OK);
        stint_future_release(future);
        /* In the child that returns, the worker has nothing left to do: its thread ends, and it was the only one. */
        assert_ends_well((pid_t)(intptr_t)outcome.value);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- With subtasks outstanding ------------------------------------------------------------------------------------ */

struct outstanding {
    struct gate gate;
    bool joins;
    pid_t child;
    int join_error;
};

static int fork_with_a_subtask_taken(void *arg, void **value)
{
    (void)value;
    struct outstanding *outstanding = arg;
    stint_subtask taken;
    stint_fork(&taken, gate_hold, &outstanding->gate);
    while (atomic_load(&outstanding->gate.entered) == 0) {
        stint_subtask own;
        stint_fork(&own, do_nothing, NULL);
        stint_join(&own, NULL);
        gate_nap();
    }
    outstanding->child = fork();
    if (outstanding->child == 0)
        end_if_it_hangs(PATIENCE);
    else
        gate_open(&outstanding->gate);
    if (outstanding->child != 0 || outstanding->joins)
        outstanding->join_error = stint_join(&taken, NULL);
    if (outstanding->child == 0 && outstanding->joins && outstanding->join_error != EINVAL)
        _exit(1);
    return 0; /* in the child the worker's thread ends then, which is the only one */
}

TEST(what_a_child_s_task_had_others_do_is_not_waited_for)
{
    stint_pool *pool = try_to_make_pool();
    for (int joins = 0; joins <= 1; joins++) {
        struct outstanding outstanding = { .joins = joins != 0, .join_error = -1 };
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, fork_with_a_subtask_taken, &outstanding, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        stint_future_release(future);
        assert_int_equal(outcome.status, STINT_OK);
        assert_int_equal(outstanding.join_error, 0);
        assert_ends_well(outstanding.child);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Waits of the parent's --------------------------------------------------------------------------------------- */

static int await_it(void *arg, void **value)
{
    (void)value;
    return stint_future_wait(arg, NULL);
}

struct circle {
    _Atomic(stint_future *) other;
    atomic_uint *deadlocks;
};

static int await_the_other(void *arg, void **value)
{
    struct circle *circle = arg;
    stint_future *other;
    (void)value;
    while ((other = atomic_load(&circle->other)) == NULL)
        gate_nap();
    if (stint_future_wait(other, NULL) == EDEADLK)
        atomic_fetch_add(circle->deadlocks, 1);
    return 0;
}

/* In the child: two that wait for each other. */
static int go_round(stint_pool *pool)
{
    atomic_uint deadlocks = 0;
    struct circle circle[2] = { { .deadlocks = &deadlocks }, { .deadlocks = &deadlocks } };
    stint_future *futures[2];
    for (int i = 0; i < 2; i++) {
        if (stint_submit(pool, await_the_other, &circle[i], NULL, &futures[i]) != 0)
            return 31;
    }
    for (int i = 0; i < 2; i++)
        atomic_store(&circle[i].other, futures[1 - i]);
    for (int i = 0; i < 2; i++) {
        if (stint_future_wait(futures[i], NULL) != 0)
            return 32;
    }
    for (int i = 0; i < 2; i++)
        stint_future_release(futures[i]); /* not before nobody waits for it any more */
    return atomic_load(&deadlocks) == 1 ? 0 : 33;
}

static int go_round_often(void)
{
    int failed = 0;
    stint_pool *pool = try_to_make_pool();
    if (pool == NULL)
        return 30;
    for (int i = 0; i < 5 && failed == 0; i++)
        failed = go_round(pool);
    return failed != 0 || stint_pool_destroy(pool) == 0 ? failed : 34;
}

TEST(what_a_parent_s_tasks_wait_for_is_nothing_to_its_child)
{
    enum { WAITING = 8 };
    stint_pool *pool = try_to_make_pool();
    struct gate gate = { 0 };
    stint_future *held, *waiting[WAITING];
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &held), 0);
    gate_await(&gate, 1);
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(stint_submit(pool, await_it, held, NULL, &waiting[i]), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL); /* longer than a short sleep */
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(go_round_often());
    }
    assert_ends_well(child);
    gate_open(&gate);
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(stint_future_wait(waiting[i], NULL), 0);
        stint_future_release(waiting[i]);
    }
    stint_future_release(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int follow(const stint_outcome *before, void *arg, void **value)
{
    (void)before;
    return do_nothing(arg, value);
}

#define CHAIN 200

/* The last of many, of which each follows the one before. */
static int wait_for_the_last(stint_pool *pool, stint_future *parents)
{
    stint_future *last = parents;
    for (int i = 0; i < CHAIN; i++) {
        if (stint_future_then_submit(last, pool, follow, NULL, NULL, &last) != 0)
            return 11;
    }
    return stint_future_wait(last, NULL) == EOWNERDEAD ? 0 : 12;
}

/* Of what is made in the child, and waits for that. */
static int wait_for_what_follows(stint_future *parents)
{
    stint_pool *pool = try_to_make_pool();
    stint_future *own, *made[4];
    stint_group *group;
    if (pool == NULL || stint_submit(pool, do_nothing, NULL, NULL, &own) != 0 || stint_group_create(&group) != 0 ||
        stint_group_add(group, parents) != 0)
        return 2;
    stint_future *const both[] = { own, parents };
    stint_future *nested[] = { NULL, parents };
    if (stint_when_all(both, 2, &made[0]) != 0 || stint_when_any(&parents, 1, &made[1]) != 0 ||
        stint_group_when_idle(group, &made[2]) != 0 ||
        stint_future_then_submit(made[0], pool, follow, NULL, NULL, &made[3]) != 0)
        return 3;
    for (int i = 0; i < 4; i++) {
        if (stint_future_wait(made[i], NULL) != EOWNERDEAD ||
            stint_future_wait_for(made[i], 1000 * MS, NULL) != EOWNERDEAD)
            return 4 + i;
    }
    if (stint_group_wait(group, NULL) != EOWNERDEAD)
        return 8;
    nested[0] = made[0];
    if (stint_when_any(nested, 2, &made[1]) != 0 || stint_future_wait(made[1], NULL) != EOWNERDEAD)
        return 9;
    if (stint_when_any(both, 2, &made[2]) != 0 || stint_future_wait(made[2], NULL) != 0)
        return 10;
    return wait_for_the_last(pool, parents);
}

TEST(what_follows_a_parent_s_future_is_not_waited_for_in_the_child)
{
    stint_pool *pool = try_to_make_pool();
    struct gate gate = { 0 };
    stint_future *held;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &held), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(wait_for_what_follows(held));
    }
    assert_ends_well(child);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(held, NULL), 0);
    stint_future_release(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
