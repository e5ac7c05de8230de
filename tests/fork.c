/* SPDX-License-Identifier: MIT
 *
 * The child of a fork can run tasks of its own, and end those that it was forked in. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define PATIENCE 20 /* seconds until a child that hangs is ended */

static void assert_ends_well(pid_t child)
{
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int loop_for_ever(void *unused, void **value)
{
    (void)unused;
    (void)value;
    static volatile bool stopped;
    while (!stopped)
        ;
    return 0;
}

static stint_reason reason_of_a_preempted_loop(void)
{
    const stint_options options = { .budget = { .wall_ns = 20000000 }, .preemptible = true };
    stint_outcome outcome;
    return stint_run(loop_for_ever, NULL, &options, &outcome) == 0 ? outcome.reason : STINT_REASON_FAILED;
}

static void test_a_loop_in_the_child_is_preempted(void **state)
{
    (void)state;
    assert_int_equal(reason_of_a_preempted_loop(), STINT_REASON_DEADLINE);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(reason_of_a_preempted_loop() == STINT_REASON_DEADLINE ? 0 : 1);
    }
    assert_ends_well(child);
}

struct forking {
    stint_token *token;
    atomic_bool in_hook;
    atomic_bool forked;
    pid_t child;
};

static void stay_until_forked(void *argument)
{
    struct forking *forking = argument;
    atomic_store(&forking->in_hook, true);
    while (!atomic_load(&forking->forked))
        usleep(100);
}

static int fork_while_the_hook_runs(void *argument, void **value)
{
    (void)value;
    struct forking *forking = argument;
    stint_hook hook;
    if (stint_hook_push(&hook, stay_until_forked, forking) != 0)
        return EAGAIN;
    stint_token_set(forking->token);
    while (!atomic_load(&forking->in_hook))
        usleep(100);
    forking->child = fork();
    if (forking->child == 0)
        alarm(PATIENCE);
    atomic_store(&forking->forked, true);
    stint_hook_pop(&hook);
    return 0;
}

static void test_a_task_that_forked_while_its_hook_ran_ends_in_the_child_too(void **state)
{
    (void)state;
    struct forking forking = { .child = -1 };
    assert_int_equal(stint_token_create(&forking.token, NULL), 0);
    const stint_options options = { .token = forking.token };
    stint_outcome outcome;
    int error = stint_run(fork_while_the_hook_runs, &forking, &options, &outcome);
    if (forking.child == 0)
        _exit(error == 0 && outcome.reason == STINT_REASON_TOKEN ? 0 : 1);
    assert_int_equal(error, 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_ends_well(forking.child);
    stint_token_release(forking.token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_in_the_child_is_preempted),
        cmocka_unit_test(test_a_task_that_forked_while_its_hook_ran_ends_in_the_child_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
