/* SPDX-License-Identifier: MIT
 *
 * The child of a fork can run tasks of its own, and end those that it was forked in. */
#include "support.h"

#include <stdatomic.h>

#define PATIENCE 20 /* seconds until a child that hangs is ended */

static stint_reason reason_of_a_preempted_loop(void)
{
    const stint_options options = { .size = sizeof(stint_options),
                                    .budget = { .wall_ns = 20000000 },
                                    .preemptible = true };
    stint_outcome outcome;
    return stint_run(loop_for_ever, NULL, &options, &outcome) == 0 ? outcome.reason : STINT_REASON_FAILED;
}

TEST(a_loop_in_the_child_is_preempted)
{
    assert_int_equal(reason_of_a_preempted_loop(), STINT_REASON_DEADLINE);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(reason_of_a_preempted_loop() == STINT_REASON_DEADLINE ? 0 : 1);
    }
    assert_ends_well(child);
}

/* As in every process that nobody has called exit in; its main thread here is the one that has forked. */
TEST(the_child_ends_with_its_last_thread)
{
    pid_t child = fork();
    if (child == 0) {
        reason_of_a_preempted_loop();
        pthread_exit(NULL);
    }
    bool has_ended = false;
    for (int i = 0; i < 1000 && !has_ended; i++) {
        usleep(10000);
        has_ended = waitpid(child, NULL, WNOHANG) == child;
    }
    if (!has_ended)
        kill(child, SIGKILL);
    assert_true(has_ended);
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

TEST(a_task_that_forked_while_its_hook_ran_ends_in_the_child_too)
{
    struct forking forking = { .child = -1 };
    assert_int_equal(stint_token_create(NULL, &forking.token), 0);
    const stint_options options = { .size = sizeof(stint_options), .token = forking.token };
    stint_outcome outcome;
    int error = stint_run(fork_while_the_hook_runs, &forking, &options, &outcome);
    if (forking.child == 0)
        _exit(error == 0 && outcome.reason == STINT_REASON_TOKEN ? 0 : 1);
    assert_int_equal(error, 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_ends_well(forking.child);
    stint_token_release(forking.token);
}

/* --- Accounts ----------------------------------------------------------------------------------------------------- */

struct holding {
    stint_account *account;
    atomic_bool runs;
    atomic_bool enough;
    pid_t child;
};

static int hold_until_enough(void *arg, void **value)
{
    (void)value;
    struct holding *holding = arg;
    for (int i = 0; i < 64; i++)
        keep(stint_malloc(16 * KIB));
    atomic_store(&holding->runs, true);
    while (!atomic_load(&holding->enough))
        usleep(100);
    return 0;
}

static void *hold(void *arg)
{
    struct holding *holding = arg;
    const stint_options options = { .size = sizeof(stint_options), .account = holding->account };
    stint_outcome outcome;
    stint_run(hold_until_enough, holding, &options, &outcome);
    return NULL;
}

static int allocate_half(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return stint_malloc(MIB / 2) != NULL ? 0 : ENOMEM;
}

static int use_account(stint_account *account)
{
    const stint_options options = { .size = sizeof(stint_options), .account = account };
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    stint_outcome outcome;
    if (stint_account_read(account, &usage) != 0 || usage.running != 0 || usage.memory != 0)
        return 1;
    if (stint_run(allocate_half, NULL, &options, &outcome) != 0 || outcome.status != STINT_OK)
        return 2;
    if (stint_account_read(account, &usage) != 0 || usage.running != 0 || usage.memory != 0)
        return 3;
    return 0;
}

TEST(the_child_s_accounts_count_no_task_of_other_threads)
{
    struct holding holding = { 0 };
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1, .memory = 2 * MIB };
    stint_account *tenant;
    assert_int_equal(stint_account_create(NULL, &limits, &tenant), 0);
    assert_int_equal(stint_account_create(tenant, NULL, &holding.account), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold, &holding), 0);
    while (!atomic_load(&holding.runs))
        usleep(100);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        int error = use_account(tenant);
        if (error == 0)
            error = use_account(holding.account);
        if (error == 0 && fork() == 0) /* and its child's */
            _exit(use_account(holding.account));
        int status = 0;
        wait(&status);
        _exit(error != 0 ? error : WEXITSTATUS(status));
    }
    atomic_store(&holding.enough, true);
    assert_ends_well(child);
    pthread_join(thread, NULL);
    assert_int_equal(use_account(tenant), 0);
    stint_account_release(holding.account);
    stint_account_release(tenant);
}

static int fork_with_account(void *arg, void **value)
{
    (void)value;
    struct holding *holding = arg;
    keep(stint_malloc(MIB / 2));
    holding->child = fork();
    if (holding->child != 0)
        return 0;
    alarm(PATIENCE);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    bool counted = stint_account_read(holding->account, &usage) == 0 && usage.running == 1 && usage.memory >= MIB / 2;
    return counted ? 0 : EINVAL;
}

static int run_with_account(void *arg, void **value)
{
    (void)value;
    const stint_options options = { .size = sizeof(stint_options), .account = ((struct holding *)arg)->account };
    stint_outcome outcome;
    int error = stint_run(fork_with_account, arg, &options, &outcome);
    return error != 0 ? error : outcome.error;
}

TEST(the_child_of_a_task_is_still_counted_until_that_ends)
{
    struct holding holding = { 0 };
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 2, .memory = 4 * MIB };
    assert_int_equal(stint_account_create(NULL, &limits, &holding.account), 0);
    const stint_options options = { .size = sizeof(stint_options), .account = holding.account };
    stint_outcome outcome;
    int error = stint_run(run_with_account, &holding, &options, &outcome);
    if (holding.child == 0)
        _exit(error != 0 || outcome.status != STINT_OK ? 10 : use_account(holding.account));
    assert_int_equal(error, 0);
    assert_ok(outcome);
    assert_ends_well(holding.child);
    assert_int_equal(use_account(holding.account), 0);
    stint_account_release(holding.account);
}

/* --- Processor time, which begins at 0 in the child --- */

#define PROCESSOR_LIMIT (100 * MS)

static uint64_t processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

static void spend(uint64_t time)
{
    uint64_t end = processor_time() + time;
    while (processor_time() < end)
        stint_free(keep(stint_malloc(1000)));
}

static int spend_in_child(void *forked, void **value)
{
    (void)value;
    spend(PROCESSOR_LIMIT * 6 / 10);
    *(pid_t *)forked = fork();
    if (*(pid_t *)forked == 0)
        spend(PROCESSOR_LIMIT * 5);
    return 0;
}

TEST(what_a_task_has_used_of_the_processor_counts_in_the_child)
{
    const stint_options options = { .size = sizeof(stint_options), .budget = { .cpu_ns = PROCESSOR_LIMIT } };
    stint_outcome outcome;
    pid_t child = -1;
    spend(PROCESSOR_LIMIT);
    int error = stint_run(spend_in_child, &child, &options, &outcome);
    if (child == 0)
        _exit(error == 0 && outcome.reason == STINT_REASON_CPU && processor_time() < PROCESSOR_LIMIT * 9 / 10 ? 0 : 1);
    assert_int_equal(error, 0);
    assert_ok(outcome);
    assert_ends_well(child);
}

TEST_MAIN()
