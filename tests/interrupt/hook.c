/* SPDX-License-Identifier: MIT
 *
 * Interrupt hooks, which tell a task that sleeps, or runs in another library's loop, to stop; and token descriptors. */
#include "support.h"

#include <poll.h>
#include <stdatomic.h>

struct pipe_task {
    int ends[2];
    atomic_int calls;
    atomic_int reading;
    bool own_thread; /* that called the hook last */
    pthread_t thread;
    stint_token *token; /* to be set */
};

static void make_pipe(struct pipe_task *task)
{
    *task = (struct pipe_task){ .calls = 0 };
    assert_int_equal(pipe(task->ends), 0);
}

static void close_pipe(const struct pipe_task *task)
{
    close(task->ends[0]);
    close(task->ends[1]);
}

static void write_a_byte(void *argument)
{
    struct pipe_task *task = argument;
    task->own_thread = pthread_equal(pthread_self(), task->thread) != 0;
    atomic_fetch_add(&task->calls, 1);
    (void)!write(task->ends[1], "", 1);
}

static int read_until_told(void *argument, void **value)
{
    (void)value;
    struct pipe_task *task = argument;
    stint_hook hook;
    char byte;
    task->thread = pthread_self();
    if (stint_hook_push(&hook, write_a_byte, task) != 0)
        return EIO;
    atomic_store(&task->reading, 1);
    (void)!read(task->ends[0], &byte, 1);
    stint_checkpoint();
    stint_hook_pop(&hook);
    return 0;
}

TEST(a_deadline_calls_the_hook_of_a_task_that_sleeps)
{
    struct pipe_task task;
    make_pipe(&task);
    stint_options options = { .size = sizeof(stint_options), .budget = { .wall_ns = 10 * MS } };
    stint_outcome outcome;
    assert_int_equal(stint_run(read_until_told, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(atomic_load(&task.calls), 1);
    assert_false(task.own_thread);
    close_pipe(&task);
}

static void *set_when_reading(void *argument)
{
    struct pipe_task *task = argument;
    while (atomic_load(&task->reading) == 0)
        sched_yield();
    stint_token_set(task->token);
    return NULL;
}

TEST(a_token_above_calls_the_hook_of_a_task_that_sleeps)
{
    for (int i = 0; i < 200; i++) {
        struct pipe_task task;
        stint_token *parent, *child;
        make_pipe(&task);
        assert_int_equal(stint_token_create(NULL, &parent), 0);
        assert_int_equal(stint_token_create(parent, &child), 0);
        task.token = parent;
        pthread_t setter;
        assert_int_equal(pthread_create(&setter, NULL, set_when_reading, &task), 0);
        stint_options options = { .size = sizeof(stint_options), .token = child };
        stint_outcome outcome;
        assert_int_equal(stint_run(read_until_told, &task, &options, &outcome), 0);
        assert_int_equal(pthread_join(setter, NULL), 0);
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
        assert_int_equal(atomic_load(&task.calls), 1);
        stint_token_release(child);
        stint_token_release(parent);
        close_pipe(&task);
    }
}

static __attribute__((noreturn)) void keep_allocating(void)
{
    for (;;)
        keep(stint_malloc(100));
}

static int allocate_for_ever(void *argument, void **value)
{
    (void)value;
    struct pipe_task *task = argument;
    stint_hook hook;
    task->thread = pthread_self();
    stint_hook_push(&hook, write_a_byte, task);
    keep_allocating();
}

TEST(a_spent_limit_calls_the_hook_once_on_the_tasks_own_thread)
{
    struct pipe_task task;
    make_pipe(&task);
    stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 10000 } };
    stint_outcome outcome;
    assert_int_equal(stint_run(allocate_for_ever, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(atomic_load(&task.calls), 1);
    assert_true(task.own_thread);
    close_pipe(&task);
}

static int push_and_pop(void *argument, void **value)
{
    (void)value;
    stint_hook hook;
    for (int i = 0; i < 100; i++) {
        stint_hook_push(&hook, write_a_byte, argument);
        stint_hook_pop(&hook);
    }
    keep_allocating();
}

TEST(a_popped_hook_is_not_called)
{
    struct pipe_task task;
    make_pipe(&task);
    stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 10000 } };
    stint_outcome outcome;
    assert_int_equal(stint_run(push_and_pop, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(atomic_load(&task.calls), 0);
    close_pipe(&task);
}

static int run_inner_reader(void *task, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_run(read_until_told, task, NULL, &outcome);
    return 0;
}

TEST(an_outer_deadline_calls_the_hook_of_an_inner_scope)
{
    struct pipe_task task;
    make_pipe(&task);
    stint_options options = { .size = sizeof(stint_options), .budget = { .wall_ns = 10 * MS } };
    stint_outcome outcome;
    assert_int_equal(stint_run(run_inner_reader, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(atomic_load(&task.calls), 1);
    close_pipe(&task);
}

static void *set_soon(void *token)
{
    nap_ms(20);
    stint_token_set(token);
    return NULL;
}

TEST(a_token_of_the_scope_around_calls_the_hook_of_an_inner_scope)
{
    struct pipe_task task;
    pthread_t thread;
    make_pipe(&task);
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    assert_int_equal(pthread_create(&thread, NULL, set_soon, options.token), 0);
    assert_cancelled(run_task(run_inner_reader, &task, &options), STINT_REASON_TOKEN);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&task.calls), 1);
    stint_token_release(options.token);
    close_pipe(&task);
}

static int set_then_read(void *argument, void **value)
{
    struct pipe_task *task = argument;
    stint_token_set(task->token);
    return read_until_told(argument, value);
}

TEST(a_token_set_before_the_hook_is_pushed_calls_it)
{
    struct pipe_task task;
    make_pipe(&task);
    assert_int_equal(stint_token_create(NULL, &task.token), 0);
    stint_options options = { .size = sizeof(stint_options), .token = task.token };
    stint_outcome outcome;
    assert_int_equal(stint_run(set_then_read, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_int_equal(atomic_load(&task.calls), 1);
    stint_token_release(task.token);
    close_pipe(&task);
}

static void count_call(void *argument)
{
    struct pipe_task *task = argument;
    atomic_fetch_add(&task->calls, 1);
}

static int push_twice(void *argument, void **value)
{
    struct pipe_task *task = argument;
    stint_hook hooks[2];
    (void)value;
    for (int i = 0; i < 4; i++)
        assert_int_equal(stint_hook_push(&hooks[i % 2], count_call, task), 0);
    while (!stint_is_interrupted())
        stint_checkpoint();
    return 0;
}

TEST(a_hook_that_is_pushed_again_is_called_once)
{
    struct pipe_task task = { .calls = 0 };
    stint_options options = { .size = sizeof(stint_options), .budget = { .wall_ns = 10 * MS } };
    stint_outcome outcome;
    assert_int_equal(stint_run(push_twice, &task, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(atomic_load(&task.calls), 2);
}

TEST(bad_hooks_are_refused)
{
    stint_hook hook;
    assert_int_equal(stint_hook_push(NULL, write_a_byte, NULL), EINVAL);
    assert_int_equal(stint_hook_push(&hook, NULL, NULL), EINVAL);
    assert_int_equal(stint_hook_push(&hook, write_a_byte, NULL), 0);
    stint_hook_pop(&hook);
    stint_hook_pop(NULL);
}

static int ready_within(int descriptor, int milliseconds)
{
    struct pollfd poller = { .fd = descriptor, .events = POLLIN };
    return poll(&poller, 1, milliseconds);
}

TEST(a_token_descriptor_becomes_readable_when_a_token_above_is_set)
{
    stint_token *parent, *child;
    int descriptor, again;
    assert_int_equal(stint_token_create(NULL, &parent), 0);
    assert_int_equal(stint_token_create(parent, &child), 0);
    assert_int_equal(stint_token_fd(child, &descriptor), 0);
    assert_int_equal(stint_token_fd(child, &again), 0);
    assert_int_equal(descriptor, again);
    assert_int_equal(ready_within(descriptor, 20), 0);
    stint_token_set(parent);
    assert_int_equal(ready_within(descriptor, 10000), 1);
    assert_int_equal(ready_within(descriptor, 0), 1);
    stint_token_release(child);
    assert_int_equal(fcntl(descriptor, F_GETFD), -1);
    stint_token_release(parent);
}

TEST(a_descriptor_of_a_set_token_is_readable)
{
    stint_token *token;
    int descriptor;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    stint_token_set(token);
    assert_int_equal(stint_token_fd(token, &descriptor), 0);
    assert_int_equal(ready_within(descriptor, 10000), 1);
    assert_int_equal(stint_token_fd(NULL, &descriptor), EINVAL);
    assert_int_equal(stint_token_fd(token, NULL), EINVAL);
    stint_token_release(token);
}

struct telling {
    volatile bool told;
    bool heard; /* inside the inner scope */
};

static void tell(void *argument)
{
    ((struct telling *)argument)->told = true;
}

static int allocate_until_told(void *argument, void **value)
{
    (void)value;
    struct telling *telling = argument;
    for (int i = 0; i < 100000 && !telling->told; i++)
        stint_free(keep(stint_malloc(100)));
    telling->heard = telling->told;
    return 0;
}

static int hook_around_an_inner_scope(void *telling, void **value)
{
    (void)value;
    stint_hook hook;
    stint_outcome outcome;
    const stint_options inner = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
    int error = stint_hook_push(&hook, tell, telling);
    if (error == 0)
        error = stint_run(allocate_until_told, telling, &inner, &outcome);
    stint_hook_pop(&hook);
    return error;
}

TEST(a_spent_limit_calls_the_hook_while_an_inner_scope_without_hooks_runs)
{
    struct telling telling = { .told = false };
    const stint_options options = { .size = sizeof(stint_options),
                                    .budget = { .allocation = 64 * KIB },
                                    .on_interrupt = STINT_FAIL };
    assert_limit_passed(run_task(hook_around_an_inner_scope, &telling, &options));
    assert_true(telling.heard);
}

/* --- A thread that is cancelled while it waits for its hook to return --- */

struct slow_hook {
    stint_token *token;
    atomic_bool called;
    atomic_bool popping;
};

static void stay_a_moment(void *arg)
{
    struct slow_hook *slow = arg;
    atomic_store(&slow->called, true);
    while (!atomic_load(&slow->popping))
        usleep(100);
    usleep(50000);
}

static int pop_while_cancelled(void *arg, void **value)
{
    struct slow_hook *slow = arg;
    stint_hook hook;
    (void)value;
    assert_int_equal(stint_hook_push(&hook, stay_a_moment, slow), 0);
    stint_token_set(slow->token);
    while (!atomic_load(&slow->called))
        usleep(100);
    stint_mask();
    pthread_cancel(pthread_self());
    atomic_store(&slow->popping, true);
    stint_hook_pop(&hook);
    pthread_testcancel();
    return 0;
}

static void *run_while_cancelled(void *arg)
{
    struct slow_hook *slow = arg;
    stint_options options = { .size = sizeof(stint_options), .token = slow->token };
    run_task(pop_while_cancelled, slow, &options);
    return NULL;
}

TEST(a_thread_that_is_cancelled_leaves_the_watch_to_the_others)
{
    struct slow_hook slow = { .called = false };
    struct pipe_task task;
    pthread_t thread;
    void *result;
    assert_int_equal(stint_token_create(NULL, &slow.token), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_while_cancelled, &slow), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    alarm(20); /* it would wait for ever */
    make_pipe(&task);
    stint_options options = { .size = sizeof(stint_options), .budget.wall_ns = 20 * MS };
    assert_int_equal(run_task(read_until_told, &task, &options).reason, STINT_REASON_DEADLINE);
    close_pipe(&task);
    alarm(0);
    stint_token_release(slow.token);
}

TEST_MAIN()
