/* SPDX-License-Identifier: MIT
 *
 * An interrupt of a task reaches all its branches, whichever thread finds it; their guards run, and the frames that
 * forked a branch stay until it has ended. */
#include "thieves.h"

#include <signal.h>
#include <stint/interrupt.h>

/* --- Two threads of a task, one of which finds out ---------------------------------------------------------------- */

typedef void trouble_fn(void);

struct pair {
    trouble_fn *owners;
    trouble_fn *thiefs;
    stint_token *token;
    atomic_int running;
    atomic_int released; /* guards: of the owner, of the thief */
    atomic_bool owner_left_first;
    struct fork fork;
};

static struct pair *current_pair;

static void release_owners(void *arg)
{
    struct pair *pair = arg;
    if (!atomic_load(&pair->fork.done))
        atomic_store(&pair->owner_left_first, true);
    atomic_fetch_add(&pair->released, 1);
}

static void release_thiefs(void *arg)
{
    struct pair *pair = arg;
    atomic_fetch_add(&pair->released, 100);
}

static void meet(struct pair *pair)
{
    atomic_fetch_add(&pair->running, 1);
    while (atomic_load(&pair->running) < 2) {
        stint_checkpoint();
        sched_yield();
    }
}

static int thiefs_part(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    STINT_GUARD(release_thiefs, pair);
    meet(pair);
    pair->thiefs();
    return 0;
}

static int owners_part(void *arg, void **value)
{
    struct pair *pair = arg;
    (void)value;
    STINT_GUARD(release_owners, pair);
    fork_start(&pair->fork, thiefs_part, pair);
    await_theft(&pair->fork);
    meet(pair);
    pair->owners();
    return fork_join(&pair->fork, NULL);
}

static stint_outcome run_pair(struct pair *pair, trouble_fn *owners, trouble_fn *thiefs, const stint_options *options)
{
    pair->owners = owners;
    pair->thiefs = thiefs;
    pair->token = options->token;
    atomic_store(&pair->running, 0);
    atomic_store(&pair->released, 0);
    atomic_store(&pair->owner_left_first, false);
    current_pair = pair;
    stint_outcome outcome = run_task(owners_part, pair, options);
    /* On a slow machine a deadline may come before the branch. */
    if (options->budget.wall_ns == 0 || atomic_load(&pair->released) != 1)
        assert_int_equal(atomic_load(&pair->released), 101);
    assert_false(atomic_load(&pair->owner_left_first));
    return outcome;
}

static void nothing(void)
{
}

static void wait_at_checkpoints(void)
{
    while (!stint_is_interrupted())
        stint_checkpoint();
}

static void wait_while_allocating(void)
{
    void *block;
    while ((block = stint_malloc(48)) != NULL)
        stint_free(block);
}

static void set_token(void)
{
    stint_token_set(current_pair->token);
    wait_at_checkpoints();
}

static void allocate_too_much(void)
{
    while (stint_malloc(1000) != NULL)
        ;
}

TEST_WITH_THIEVES(a_token_ends_both_threads_whoever_sets_it)
{
    static trouble_fn *const waits[] = { wait_at_checkpoints, wait_while_allocating };
    for (int round = 0; round < 100; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        trouble_fn *wait = waits[round / 2 % 2];
        options.on_interrupt = round % 3 == 0 ? STINT_FAIL : STINT_JUMP;
        assert_int_equal(stint_token_create(NULL, &options.token), 0);
        stint_outcome outcome =
            round % 2 == 0 ? run_pair(&pair, set_token, wait, &options) : run_pair(&pair, wait, set_token, &options);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        assert_int_equal(pair.fork.interrupted, options.on_interrupt == STINT_JUMP);
        stint_token_release(options.token);
    }
}

TEST_WITH_THIEVES(an_owner_that_waits_in_a_join_ends_with_its_branch)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        options.on_interrupt = round % 2 == 0 ? STINT_JUMP : STINT_UNWIND;
        assert_int_equal(stint_token_create(NULL, &options.token), 0);
        assert_cancelled(run_pair(&pair, nothing, set_token, &options), STINT_REASON_TOKEN);
        stint_token_release(options.token);
    }
}

TEST_WITH_THIEVES(a_spent_limit_ends_both_threads_whoever_finds_it)
{
    for (int round = 0; round < 100; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        bool memory = round % 4 < 2;
        *(memory ? &options.budget.memory : &options.budget.allocation) = 256 * KIB;
        options.on_interrupt = round % 3 == 0 ? STINT_UNWIND : STINT_JUMP;
        trouble_fn *wait = memory && round % 8 == 0 ? wait_while_allocating : wait_at_checkpoints;
        stint_outcome outcome = round % 2 == 0 ? run_pair(&pair, allocate_too_much, wait, &options)
                                               : run_pair(&pair, wait, allocate_too_much, &options);
        stint_reason reason = memory ? STINT_REASON_MEMORY_LIMIT : STINT_REASON_ALLOCATION_LIMIT;
        assert_outcome(outcome, STINT_ERROR, reason, ENOMEM);
    }
}

TEST_WITH_THIEVES(the_deadline_of_the_task_is_that_of_its_branches)
{
    stint_options options = STINT_OPTIONS_INIT;
    struct pair pair;
    options.budget.wall_ns = 5000000;
    assert_outcome(run_pair(&pair, nothing, wait_at_checkpoints, &options), STINT_ERROR, STINT_REASON_DEADLINE,
                   ETIMEDOUT);
    assert_outcome(run_pair(&pair, wait_while_allocating, wait_at_checkpoints, &options), STINT_ERROR,
                   STINT_REASON_DEADLINE, ETIMEDOUT);
}

static void spin_at_checkpoints(void)
{
    for (uint64_t count = 0; !stint_is_interrupted(); count++) {
        if (count % 64 == 0)
            stint_checkpoint();
    }
}

TEST_WITH_THIEVES(the_processor_time_of_branches_is_the_tasks)
{
    stint_options options = STINT_OPTIONS_INIT;
    struct pair pair;
    options.budget.cpu_ns = 20000000;
    stint_outcome outcome = run_pair(&pair, nothing, spin_at_checkpoints, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_CPU, ETIMEDOUT);
    assert_true(outcome.usage.cpu_ns >= options.budget.cpu_ns);
}

#define MAX_NAPS 2000

/* Few sample points: only a request makes one of the next allocation. */
static void nap_and_allocate_little(void)
{
    struct timespec nap = { .tv_nsec = 5000000 };
    for (int i = 0; i < MAX_NAPS; i++) {
        stint_free(keep(stint_malloc(16)));
        nanosleep(&nap, NULL);
    }
    assert_true(false);
}

TEST_WITH_THIEVES(a_branch_that_allocates_rarely_is_poked_at_the_deadline)
{
    stint_options options = STINT_OPTIONS_INIT;
    struct pair pair;
    options.budget.wall_ns = 20000000;
    assert_outcome(run_pair(&pair, nothing, nap_and_allocate_little, &options), STINT_ERROR, STINT_REASON_DEADLINE,
                   ETIMEDOUT);
}

TEST_WITH_THIEVES(the_first_reason_is_the_tasks)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        options.budget.allocation = 64 * KIB;
        assert_int_equal(stint_token_create(NULL, &options.token), 0);
        stint_outcome outcome = run_pair(&pair, set_token, allocate_too_much, &options);
        assert_true(outcome.reason == STINT_REASON_TOKEN || outcome.reason == STINT_REASON_ALLOCATION_LIMIT);
        assert_true((outcome.reason == STINT_REASON_TOKEN) == (outcome.status == STINT_CANCELLED));
        stint_token_release(options.token);
    }
}

/* --- Masks and inner scopes --------------------------------------------------------------------------------------- */

static atomic_bool mask_begun;
static atomic_bool mask_ended;

static void mask_for_a_while(void)
{
    stint_mask();
    atomic_store(&mask_begun, true);
    while (!stint_is_interrupted())
        stint_checkpoint();
    for (int i = 0; i < 1000; i++)
        stint_free(keep(stint_malloc(16)));
    atomic_store(&mask_ended, true);
    stint_unmask();
}

static void set_token_in_its_mask(void)
{
    while (!atomic_load(&mask_begun))
        sched_yield();
    set_token();
}

TEST_WITH_THIEVES(a_masked_branch_is_interrupted_after_its_mask_and_waited_for)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        assert_int_equal(stint_token_create(NULL, &options.token), 0);
        atomic_store(&mask_begun, false);
        atomic_store(&mask_ended, false);
        assert_cancelled(run_pair(&pair, set_token_in_its_mask, mask_for_a_while, &options), STINT_REASON_TOKEN);
        assert_true(atomic_load(&mask_ended));
        stint_token_release(options.token);
    }
}

static int wait_inside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    wait_at_checkpoints();
    return 0;
}

static void wait_in_an_inner_scope(void)
{
    stint_outcome inner;
    stint_run(wait_inside, NULL, NULL, &inner);
}

TEST_WITH_THIEVES(a_scope_inside_a_branch_ends_with_the_task)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        options.budget.allocation = 100 * KIB;
        assert_limit_passed(run_pair(&pair, allocate_too_much, wait_in_an_inner_scope, &options));
        assert_limit_passed(run_pair(&pair, wait_in_an_inner_scope, allocate_too_much, &options));
    }
}

/* --- Leapfrogging ------------------------------------------------------------------------------------------------- */

/* Every branch forks one more, which its waiting parent's thread may run on top of it. */
static int descend(void *arg, void **value)
{
    unsigned depth = *(unsigned *)arg;
    (void)value;
    if (depth == 0) {
        wait_while_allocating();
        return 0;
    }
    unsigned less = depth - 1;
    struct fork forks[2];
    for (int i = 0; i < 2; i++)
        fork_start(&forks[i], descend, &less);
    int error = 0;
    for (int i = 1; i >= 0; i--)
        error |= fork_join(&forks[i], NULL);
    return error;
}

static void *set_after_a_moment(void *token)
{
    struct timespec moment = { .tv_nsec = 2000000 };
    nanosleep(&moment, NULL);
    stint_token_set(token);
    return NULL;
}

TEST_WITH_THIEVES(branches_on_top_of_waiting_ones_all_find_their_landings)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        unsigned depth = 6;
        pthread_t thread;
        options.on_interrupt = round % 2 == 0 ? STINT_JUMP : STINT_UNWIND;
        assert_int_equal(stint_token_create(NULL, &options.token), 0);
        assert_int_equal(pthread_create(&thread, NULL, set_after_a_moment, options.token), 0);
        assert_cancelled(run_task(descend, &depth, &options), STINT_REASON_TOKEN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(main_stack.count, 0);
        stint_token_release(options.token);
    }
}

/* --- Hooks -------------------------------------------------------------------------------------------------------- */

static atomic_uint hook_calls;
static atomic_bool told;

static void tell(void *arg)
{
    (void)arg;
    atomic_fetch_add(&hook_calls, 1);
    atomic_store(&told, true);
}

/* Like a task that runs in another library's loop. */
static void wait_to_be_told(void)
{
    stint_hook hook;
    if (stint_hook_push(&hook, tell, NULL) != 0)
        return;
    while (!atomic_load(&told))
        sched_yield();
    stint_hook_pop(&hook);
    wait_at_checkpoints();
}

TEST_WITH_THIEVES(a_hook_is_called_once_when_another_thread_of_the_task_is_tripped)
{
    for (int round = 0; round < 50; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        options.budget.allocation = 100 * KIB;
        atomic_store(&hook_calls, 0);
        atomic_store(&told, false);
        if (round % 2 == 0)
            assert_limit_passed(run_pair(&pair, wait_to_be_told, allocate_too_much, &options));
        else
            assert_limit_passed(run_pair(&pair, allocate_too_much, wait_to_be_told, &options));
        assert_int_equal(atomic_load(&hook_calls), 1);
    }
}

/* --- The limit on the process ------------------------------------------------------------------------------------- */

TEST_WITH_THIEVES(a_branch_that_is_the_victim_ends_its_task)
{
    if (!stint_malloc_is_overridden())
        return;
    for (int round = 0; round < 10; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct pair pair;
        options.budget.allocation = 2048 * MIB;
        assert_int_equal(stint_global_set_memory_limit(resident() + 32 * MIB), 0);
        stint_outcome outcome = run_pair(&pair, wait_while_allocating, allocate_too_much, &options);
        assert_int_equal(stint_global_set_memory_limit(0), 0);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
        await_collection();
    }
}

TEST_MAIN()
