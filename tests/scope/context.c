/* SPDX-License-Identifier: MIT
 *
 * Contexts: they follow the tasks that a task submits, forks and runs, and are destroyed once, after their last use. */
#include <sched.h>
#include <stdatomic.h>

#include "support.h"

struct request {
    atomic_uint destroyed;
    stint_pool *pool;
    stint_future *child;
    void *seen[6];
    stint_context *other;
    bool destroyed_in_task;
};

static void destroy(void *value)
{
    struct request *request = value;
    request->destroyed_in_task = stint_usage_now(&(stint_usage){ 0 }, NULL) == 0;
    atomic_fetch_add(&request->destroyed, 1);
}

static void *current(void)
{
    return stint_context_value(stint_context_current());
}

static int see(void *arg, void **value)
{
    *(void **)arg = current();
    *value = NULL;
    return 0;
}

static int see_everywhere(void *arg, void **value)
{
    struct request *request = arg;
    stint_subtask subtask;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)value;
    request->seen[0] = current();
    stint_fork(&subtask, see, &request->seen[1]);
    stint_join(&subtask, NULL);
    stint_run(see, &request->seen[2], NULL, &outcome);
    options.context = request->other;
    stint_run(see, &request->seen[3], &options, &outcome);
    int error = stint_submit(request->pool, see, &request->seen[4], NULL, &request->child);
    if (error != 0)
        return error;
    stint_future *other;
    error = stint_submit(request->pool, see, &request->seen[5], &options, &other);
    if (error != 0)
        return error;
    error = stint_future_wait(other, NULL);
    stint_future_release(other);
    return error;
}

TEST(a_context_follows_what_its_task_does)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct request request = { .destroyed = 0 };
        int other_value = 0;
        const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = workers };
        assert_int_equal(stint_pool_create(&pool_options, &request.pool), 0);
        stint_context *context;
        assert_int_equal(stint_context_create(&request, destroy, &context), 0);
        assert_int_equal(stint_context_create(&other_value, NULL, &request.other), 0);
        stint_options options = STINT_OPTIONS_INIT;
        options.context = context;
        stint_future *future;
        assert_int_equal(stint_submit(request.pool, see_everywhere, &request, &options, &future), 0);
        stint_context_release(context);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.error, 0);
        assert_int_equal(stint_future_wait(request.child, NULL), 0);
        assert_int_equal(atomic_load(&request.destroyed), 1); /* though the futures are there */
        assert_false(request.destroyed_in_task);
        static const bool own[] = { true, true, true, false, true, false };
        for (int i = 0; i < 6; i++)
            assert_ptr_equal(request.seen[i], own[i] ? (void *)&request : (void *)&other_value);
        assert_null(stint_context_current());
        stint_context_release(request.other);
        stint_future_release(request.child);
        stint_future_release(future);
        assert_int_equal(stint_pool_destroy(request.pool), 0);
    }
}

/* It runs on top of a task with a context, which it was not submitted by. */
struct awaiting {
    stint_pool *pool;
    stint_future *future;
    void *seen;
};

static int await_it(void *arg, void **value)
{
    struct awaiting *awaiting = arg;
    (void)value;
    return stint_future_wait(awaiting->future, NULL);
}

static int hold(void *arg, void **value)
{
    (void)value;
    while (!atomic_load((atomic_bool *)arg))
        sched_yield();
    return 0;
}

TEST(a_task_that_is_run_by_its_waiter_has_not_the_waiters_context)
{
    struct awaiting awaiting = { .seen = &awaiting };
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options),
                                              .workers = 1,
                                              .substitutes = STINT_NO_SUBSTITUTES };
    stint_context *context;
    atomic_bool open = false;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *holder;
    stint_future *waiter;
    assert_int_equal(stint_pool_create(&pool_options, &awaiting.pool), 0);
    assert_int_equal(stint_context_create(&awaiting, NULL, &context), 0);
    options.context = context;
    assert_int_equal(stint_submit(awaiting.pool, hold, &open, NULL, &holder), 0);
    assert_int_equal(stint_submit(awaiting.pool, await_it, &awaiting, &options, &waiter), 0);
    assert_int_equal(stint_submit(awaiting.pool, see, &awaiting.seen, NULL, &awaiting.future), 0);
    atomic_store(&open, true);
    assert_int_equal(stint_future_wait(waiter, NULL), 0);
    assert_null(awaiting.seen);
    stint_context_release(context);
    stint_future_release(awaiting.future);
    stint_future_release(waiter);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(awaiting.pool), 0);
}

static int return_code(void *arg, void **value)
{
    (void)value;
    free(keep(malloc(100)));
    return *(int *)arg;
}

TEST(a_task_gives_its_context_back_however_it_ends)
{
    struct request request = { .destroyed = 0 };
    int code = 3;
    stint_context *context;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *futures[3];
    stint_outcome outcome;
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
    assert_int_equal(stint_pool_create(&pool_options, &request.pool), 0);
    assert_int_equal(stint_context_create(&request, destroy, &context), 0);
    options.context = context;
    atomic_bool open = false;
    stint_future *holder;
    assert_int_equal(stint_submit(request.pool, hold, &open, NULL, &holder), 0);
    int error = 0;
    int submitted = 0;
    while (error == 0 && submitted < 3 &&
           (error = stint_submit(request.pool, return_code, &code, &options, &futures[submitted])) == 0)
        submitted++;
    stint_future_cancel(futures[0]);
    assert_int_equal(stint_run(return_code, &code, &options, &outcome), 0);
    stint_context_release(context);
    atomic_store(&open, true);
    for (int i = 0; i < submitted; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        stint_future_release(futures[i]);
    }
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(request.pool), 0);
    assert_int_equal(atomic_load(&request.destroyed), 1);
}

struct sight {
    stint_pool *pools[3];
    const char *names[4];
};

static int look_around(void *arg, void **value)
{
    struct sight *sight = arg;
    (void)value;
    sight->pools[1] = stint_pool_current();
    sight->names[1] = stint_task_name();
    return 0;
}

static int look_within(void *arg, void **value)
{
    struct sight *sight = arg;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)value;
    sight->pools[0] = stint_pool_current();
    sight->names[0] = stint_task_name();
    stint_run(look_around, sight, NULL, &outcome);
    options.name = "inner";
    struct sight inner;
    int error = stint_run(look_around, &inner, &options, &outcome);
    sight->names[2] = inner.names[1];
    sight->names[3] = stint_task_name();
    return error;
}

static void note_pool(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct sight *sight = arg;
    (void)future;
    (void)outcome;
    sight->pools[2] = stint_pool_current();
}

TEST(a_task_knows_its_pool_and_its_name)
{
    struct sight sight = { .pools = { NULL } };
    stint_pool *pool;
    stint_future *future;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "looker";
    assert_int_equal(stint_submit(pool, look_within, &sight, &options, &future), 0);
    stint_future_then(future, note_pool, &sight);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_ptr_equal(sight.pools[0], pool);
    assert_ptr_equal(sight.pools[1], pool);
    assert_true(sight.pools[2] == pool || sight.pools[2] == NULL); /* NULL: it had resolved, and was told here */
    assert_string_equal(sight.names[0], "looker");
    assert_string_equal(sight.names[1], "looker");
    assert_string_equal(sight.names[2], "inner");
    assert_string_equal(sight.names[3], "looker");
    assert_null(stint_pool_current());
    assert_null(stint_task_name());
}

TEST(outside_of_a_pool_there_is_a_name_but_no_pool)
{
    struct sight sight = { .pools = { NULL } };
    stint_options options = STINT_OPTIONS_INIT;
    assert_ok(run_task(look_around, &sight, &options));
    assert_null(sight.pools[1]);
    assert_null(sight.names[1]);
    options.name = "alone";
    assert_ok(run_task(look_around, &sight, &options));
    assert_null(sight.pools[1]);
    assert_string_equal(sight.names[1], "alone");
}

TEST(nothing_is_asked_of_no_context)
{
    assert_int_equal(stint_context_create(NULL, NULL, NULL), EINVAL);
    assert_null(stint_context_value(NULL));
    assert_null(stint_context_retain(NULL));
    stint_context_release(NULL);
    assert_null(stint_context_current());
}

TEST_MAIN()
