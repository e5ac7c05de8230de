/* SPDX-License-Identifier: MIT
 *
 * Groups: waiting until all that were added have resolved; and the callbacks of workers. */
#include "pools.h"

static stint_group *make_group(void)
{
    stint_group *group;
    assert_int_equal(stint_group_create(&group), 0);
    return group;
}

struct tree {
    stint_pool *pool;
    stint_group *group;
    atomic_uint nodes;
    unsigned depth;
};

struct node {
    struct tree *tree;
    unsigned depth;
};

/* Each adds two more, and waits for nothing. */
static int grow(void *arg, void **value)
{
    struct node *node = arg;
    struct tree *tree = node->tree;
    unsigned depth = node->depth;
    int error = 0;
    (void)value;
    free(node);
    atomic_fetch_add(&tree->nodes, 1);
    for (int i = 0; i < 2 && depth > 0 && error == 0; i++) {
        stint_keep_begin();
        struct node *child = malloc(sizeof *child);
        stint_keep_end();
        if (child == NULL)
            return ENOMEM;
        *child = (struct node){ tree, depth - 1 };
        while ((error = stint_group_submit(tree->group, tree->pool, grow, child, NULL)) == EAGAIN)
            sched_yield();
    }
    return error;
}

static int plant_and_wait(void *arg, void **value)
{
    struct tree *tree = arg;
    (void)value;
    stint_keep_begin();
    struct node *root = malloc(sizeof *root);
    stint_keep_end();
    if (root == NULL)
        return ENOMEM;
    *root = (struct node){ tree, tree->depth };
    int error = stint_group_submit(tree->group, tree->pool, grow, root, NULL);
    return error != 0 ? error : stint_group_wait(tree->group, NULL);
}

TEST(a_group_is_idle_when_all_that_its_tasks_added_have_ended)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct tree tree = { .pool = make_pool(.workers = workers), .group = make_group(), .depth = 9 };
        struct node *root = malloc(sizeof *root);
        assert_non_null(root);
        *root = (struct node){ &tree, tree.depth };
        assert_int_equal(stint_group_submit(tree.group, tree.pool, grow, root, NULL), 0);
        stint_outcome outcome;
        assert_int_equal(stint_group_wait(tree.group, &outcome), 0);
        assert_ok(outcome);
        assert_int_equal(atomic_load(&tree.nodes), 1023);
        assert_true(outcome.usage.allocated > 0);
        stint_group_release(tree.group);
        assert_int_equal(stint_pool_destroy(tree.pool), 0);
    }
}

TEST(a_task_may_wait_for_a_group_that_only_its_worker_could_run)
{
    struct tree tree = { .pool = make_pool(.workers = 1, .substitutes = STINT_NO_SUBSTITUTES),
                         .group = make_group(),
                         .depth = 6 };
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(tree.pool, plant_and_wait, &tree, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    assert_int_equal(atomic_load(&tree.nodes), 127);
    stint_future_release(future);
    stint_group_release(tree.group);
    assert_int_equal(stint_pool_destroy(tree.pool), 0);
}

static int wait_for_its_own(void *arg, void **value)
{
    (void)value;
    return stint_group_wait(arg, NULL);
}

TEST(a_task_that_waits_for_its_own_group_is_told)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_group *group = make_group();
    stint_outcome outcome;
    assert_int_equal(stint_group_submit(group, pool, wait_for_its_own, group, NULL), 0);
    assert_int_equal(stint_group_wait(group, &outcome), 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EDEADLK);
    stint_group_release(group);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int fail_so(void *arg, void **value)
{
    (void)value;
    return stint_fail(*(int *)arg, "so", 3);
}

static void count_call(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    atomic_fetch_add((atomic_uint *)arg, outcome->status == STINT_OK ? 1 : 100);
}

TEST(a_group_says_what_the_first_said_that_failed)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_group *group = make_group();
    struct gate gate = { 0 };
    int codes[] = { 4, 5 };
    atomic_uint calls = 0;
    stint_outcome outcome;
    stint_future *idle;
    stint_future *held;
    assert_int_equal(stint_group_wait(group, &outcome), 0);
    assert_ok(outcome);
    assert_int_equal(stint_group_when_idle(group, &idle), 0);
    assert_true(stint_future_is_ready(idle));
    stint_future_release(idle);
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &held), 0);
    assert_int_equal(stint_group_add(group, held), 0);
    stint_future_release(held);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_group_submit(group, pool, fail_so, &codes[i], NULL), 0);
    assert_int_equal(stint_group_wait_for(group, 1000000, &outcome), ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stint_group_when_idle(group, &idle), 0);
        assert_int_equal(stint_future_then(idle, count_call, &calls), 0);
        stint_future_release(idle);
    }
    assert_int_equal(atomic_load(&calls), 0);
    gate_open(&gate);
    assert_int_equal(stint_group_wait(group, &outcome), 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, 4);
    assert_string_equal(outcome.payload, "so");
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&calls), 300);
    assert_int_equal(stint_group_wait_for(group, 0, &outcome), 0);
    assert_string_equal(outcome.payload, "so");
    stint_group_release(group);
}

TEST(a_group_can_be_cancelled)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_group *group = make_group();
    struct gate gate = { 0 };
    stint_outcome outcome;
    for (int i = 0; i < 100; i++)
        assert_int_equal(stint_group_submit(group, pool, gate_hold_interruptibly, &gate, NULL), 0);
    stint_group_cancel(group);
    stint_group_cancel(NULL);
    assert_int_equal(stint_group_wait(group, &outcome), 0);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    stint_group_cancel(group);
    stint_group_release(group);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int go_on_until_cancelled(void *running, void **value)
{
    (void)value;
    atomic_fetch_add((atomic_uint *)running, 1);
    while (!stint_is_interrupted()) {
        stint_checkpoint();
        gate_nap();
    }
    return 0;
}

TEST(each_of_a_group_that_runs_is_cancelled)
{
    enum { TASKS = 4 };
    stint_pool *pool = make_pool(.workers = TASKS);
    stint_group *group = make_group();
    atomic_uint running = 0;
    stint_outcome outcome;
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(stint_group_submit(group, pool, go_on_until_cancelled, &running, NULL), 0);
    while (atomic_load(&running) < TASKS)
        gate_nap();
    stint_group_cancel(group);
    assert_int_equal(stint_group_wait_for(group, 60000 * MS, &outcome), 0);
    assert_int_equal(outcome.status, STINT_CANCELLED);
    stint_group_release(group);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_group *group = make_group();
    stint_future *future;
    assert_int_equal(stint_group_create(NULL), EINVAL);
    assert_int_equal(stint_group_submit(NULL, pool, grow, NULL, NULL), EINVAL);
    assert_int_equal(stint_group_submit(group, NULL, grow, NULL, NULL), EINVAL);
    assert_int_equal(stint_group_submit(group, pool, NULL, NULL, NULL), EINVAL);
    assert_int_equal(stint_group_add(NULL, NULL), EINVAL);
    assert_int_equal(stint_group_add(group, NULL), EINVAL);
    assert_int_equal(stint_group_wait(NULL, NULL), EINVAL);
    assert_int_equal(stint_group_wait_for(NULL, 0, NULL), EINVAL);
    assert_int_equal(stint_group_when_idle(NULL, &future), EINVAL);
    assert_int_equal(stint_group_when_idle(group, NULL), EINVAL);
    assert_int_equal(stint_group_wait(group, NULL), 0);
    stint_group_release(group);
    stint_group_release(NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Adders, waiters and a canceller at once. */
static void *add_and_wait(void *arg)
{
    struct tree *tree = arg;
    for (int i = 0; i < 300; i++) {
        struct node *leaf = malloc(sizeof *leaf);
        *leaf = (struct node){ tree, 0 };
        if (stint_group_submit(tree->group, tree->pool, grow, leaf, NULL) != 0)
            free(leaf);
        if (i % 10 == 0)
            stint_group_wait(tree->group, NULL);
    }
    stint_group_wait(tree->group, NULL);
    return NULL;
}

TEST(threads_may_add_and_wait_at_once)
{
    struct tree tree = { .pool = make_pool(.workers = 2), .group = make_group() };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_wait, &tree), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stint_group_wait_for(tree.group, 0, NULL), 0);
    assert_true(atomic_load(&tree.nodes) > 0);
    stint_group_release(tree.group);
    assert_int_equal(stint_pool_destroy(tree.pool), 0);
}

/* --- Workers ------------------------------------------------------------------------------------------------------ */

static _Thread_local unsigned mark; /* one more than its number, while the worker is between the two calls */

struct census {
    atomic_uint begun, ended, wrong;
    stint_pool *pool;
    stint_future *never;
    struct gate gate;
};

static void begin_worker(void *data, unsigned index)
{
    struct census *census = data;
    stint_usage usage;
    mark = index + 1;
    if (stint_usage_now(&usage, NULL) != ENOENT)
        atomic_fetch_add(&census->wrong, 1);
    atomic_fetch_add(&census->begun, 1);
}

static void end_worker(void *data, unsigned index)
{
    struct census *census = data;
    if (mark != index + 1 || stint_future_wait(census->never, NULL) != EDEADLK)
        atomic_fetch_add(&census->wrong, 1);
    atomic_fetch_add(&census->ended, 1);
}

static int look_for_mark(void *arg, void **value)
{
    struct census *census = arg;
    (void)value;
    if (mark == 0)
        atomic_fetch_add(&census->wrong, 1);
    stint_blocking_begin();
    gate_nap();
    stint_blocking_end();
    return 0;
}

TEST(each_worker_and_spare_tells_of_its_beginning_and_its_end)
{
    struct census census = { .begun = 0 };
    stint_pool *other = make_pool(.workers = 1);
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 2;
    options.worker_begins = begin_worker;
    options.worker_ends = end_worker;
    options.worker_data = &census;
    assert_int_equal(stint_submit(other, gate_hold, &census.gate, NULL, &census.never), 0);
    assert_int_equal(stint_pool_create(&options, &census.pool), 0);
    stint_group *group = make_group();
    for (int i = 0; i < 100; i++)
        assert_int_equal(stint_group_submit(group, census.pool, look_for_mark, &census, NULL), 0);
    assert_int_equal(stint_group_wait(group, NULL), 0);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(census.pool, &statistics), 0);
    assert_int_equal(stint_pool_destroy(census.pool), 0);
    assert_int_equal(atomic_load(&census.begun), 2 + statistics.substitutes);
    assert_int_equal(atomic_load(&census.ended), 2 + statistics.substitutes);
    assert_int_equal(atomic_load(&census.wrong), 0);
    gate_open(&census.gate);
    stint_group_release(group);
    stint_future_release(census.never);
    assert_int_equal(stint_pool_destroy(other), 0);
}

TEST_MAIN()
