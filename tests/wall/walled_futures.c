/* SPDX-License-Identifier: MIT
 *
 * The future of a walled task is a future like any other: waits, callbacks, compounds, completions, cancellation; and
 * the end of its pool and of its wall. */
#include <poll.h>

#include "../walls.h"

struct fixture {
    stint_wall *wall;
    stint_pool *pool;
};

static struct fixture begin(unsigned children)
{
    struct fixture fixture = { .wall = make_wall(.children = children) };
    fixture.pool = make_pool(.workers = 1);
    return fixture;
}

static void end(struct fixture fixture)
{
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
}

static void await_running(stint_wall *wall, unsigned count)
{
    while (read_wall(wall).running < count)
        sched_yield();
}

static int wait_inside(void *arg, void **value)
{
    struct fixture *fixture = arg;
    stint_future *future;
    stint_outcome outcome;
    int error = stint_submit_walled(fixture->pool, fixture->wall, echo, "inner", 5, NULL, &future);
    if (error == 0)
        error = stint_future_wait(future, &outcome);
    if (error != 0)
        return error;
    stint_future_release(future);
    *value = outcome.value;
    return outcome.payload_size == 5 ? 0 : EINVAL;
}

TEST(a_task_waits_for_a_walled_one)
{
    struct fixture fixture = begin(1);
    stint_outcome outcome = take_in_time(submit(fixture.pool, wait_inside, &fixture, NULL));
    assert_int_equal(outcome.status, STINT_OK);
    assert_memory_equal(outcome.value, "inner", 5);
    stint_free(outcome.value);
    end(fixture);
}

TEST(no_worker_is_held_while_children_work)
{
    struct fixture fixture = begin(4);
    stint_future *futures[4];
    for (int i = 0; i < 4; i++)
        futures[i] = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 4);
    assert_ptr_equal(take_in_time(submit(fixture.pool, give, &fixture, NULL)).value, &fixture);
    for (int i = 0; i < 4; i++) {
        stint_future_cancel(futures[i]);
        stint_outcome outcome = take_in_time(futures[i]);
        assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    }
    end(fixture);
}

static void note_outcome(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    *(stint_reason *)arg = outcome->reason;
}

TEST(a_callback_has_been_called_when_the_pool_is_destroyed)
{
    struct fixture fixture = begin(1);
    stint_reason reason = STINT_REASON_NONE;
    stint_future *future = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    assert_int_equal(stint_future_then(future, note_outcome, &reason), 0);
    await_running(fixture.wall, 1);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(reason, STINT_REASON_SHUTDOWN);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
}

TEST(all_of_some_are_those_of_both_kinds)
{
    struct fixture fixture = begin(1);
    stint_future *members[3] = { submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, NULL),
                                 submit(fixture.pool, give, NULL, NULL),
                                 submit_walled(fixture.pool, fixture.wall, write_to_null, NULL, 0, NULL) };
    stint_future *all;
    assert_int_equal(stint_when_all(members, 3, &all), 0);
    stint_outcome outcome = take_in_time(all);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_CRASH);
    assert_int_equal(stint_future_wait(members[0], &outcome), 0);
    stint_free(outcome.value);
    release_all(members, 3);
    end(fixture);
}

TEST(a_completion_queue_is_told)
{
    struct fixture fixture = begin(1);
    stint_completions *queue;
    stint_completion completion;
    size_t count = 0;
    assert_int_equal(stint_completions_create(&queue), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.completions = queue;
    options.data = &fixture;
    stint_future *future = submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, &options);
    struct pollfd source = { .fd = stint_completions_fd(queue), .events = POLLIN };
    assert_int_equal(poll(&source, 1, 60000), 1);
    assert_int_equal(stint_completions_read(queue, &completion, 1, &count), 0);
    assert_int_equal(count, 1);
    assert_ptr_equal(completion.data, &fixture);
    stint_outcome outcome = take_in_time(future);
    stint_free(outcome.value);
    stint_completions_destroy(queue);
    end(fixture);
}

TEST(a_queued_one_is_cancelled_without_a_child)
{
    struct fixture fixture = begin(1);
    stint_future *first = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 1);
    stint_future *second = submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, NULL);
    stint_future_cancel(second);
    stint_outcome outcome = take_in_time(second);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    assert_int_equal(read_wall(fixture.wall).tasks, 1);
    stint_future_cancel(first);
    outcome = take_in_time(first);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    end(fixture);
}

TEST(a_deadline_is_kept_while_a_task_waits_for_a_child)
{
    struct fixture fixture = begin(1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 20 * MS;
    stint_future *first = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 1);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_EXPIRED);
    stint_future_cancel(first);
    stint_future_release(first);
    end(fixture);
}

TEST(a_token_that_is_set_already_begins_nothing)
{
    struct fixture fixture = begin(1);
    stint_token *token;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    stint_token_set(token);
    stint_options options = STINT_OPTIONS_INIT;
    options.token = token;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    assert_int_equal(read_wall(fixture.wall).children, 0);
    stint_token_release(token);
    end(fixture);
}

TEST(draining_a_pool_waits_for_its_walled_tasks)
{
    struct fixture fixture = begin(1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 30 * MS;
    stint_future *first = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, &options);
    stint_future *second = submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, NULL);
    assert_int_equal(stint_pool_shutdown(fixture.pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_true(stint_future_is_ready(first));
    assert_true(stint_future_is_ready(second));
    stint_outcome outcome = take(first);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    outcome = take(second);
    assert_int_equal(outcome.status, STINT_OK);
    stint_free(outcome.value);
    stint_future *refused;
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, echo, NULL, 0, NULL, &refused), ESHUTDOWN);
    end(fixture);
}

TEST(cancelling_a_pool_ends_its_walled_tasks_and_no_others)
{
    struct fixture fixture = begin(2);
    stint_pool *other = make_pool(.workers = 1);
    stint_future *gone = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    stint_future *stays = submit_walled(other, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 2);
    assert_int_equal(stint_pool_shutdown(fixture.pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
    stint_outcome outcome = take(gone);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_SHUTDOWN);
    assert_false(stint_future_is_ready(stays));
    stint_future_cancel(stays);
    outcome = take_in_time(stays);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    assert_int_equal(stint_pool_destroy(other), 0);
    end(fixture);
}

TEST(a_wall_that_is_destroyed_ends_what_runs_and_what_is_queued)
{
    struct fixture fixture = begin(1);
    stint_future *running = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 1);
    stint_future *queued = submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, NULL);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    stint_outcome outcome = take(running);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_SHUTDOWN);
    outcome = take(queued);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_SHUTDOWN);
    assert_int_equal(count_processes(), 0);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
}

struct callback_state {
    stint_wall *wall;
    int error;
};

static void destroy_in_callback(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct callback_state *state = arg;
    (void)future;
    (void)outcome;
    state->error = stint_wall_destroy(state->wall);
}

TEST(a_callback_may_not_destroy_the_wall)
{
    struct fixture fixture = begin(1);
    struct callback_state seen = { .wall = fixture.wall };
    stint_future *future = submit_walled(fixture.pool, fixture.wall, write_to_null, NULL, 0, NULL);
    assert_int_equal(stint_future_then(future, destroy_in_callback, &seen), 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_shutdown(fixture.pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(seen.error, EDEADLK);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
}

/* The last one: a worker that was left may still be ending when the test has. */
TEST(a_pool_that_is_left_to_its_tasks_is_freed_by_a_walled_one)
{
    struct fixture fixture = begin(1);
    struct gate gate = { 0 };
    unsigned left;
    stint_future *held = submit(fixture.pool, gate_hold, &gate, NULL);
    while (atomic_load(&gate.entered) == 0)
        sched_yield();
    stint_future *walled = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    await_running(fixture.wall, 1);
    assert_int_equal(stint_pool_destroy_within(fixture.pool, MS, &left), ETIMEDOUT);
    stint_outcome outcome = take_in_time(walled);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_SHUTDOWN);
    atomic_store(&gate.open, true);
    take_in_time(held);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
