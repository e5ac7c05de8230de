/* SPDX-License-Identifier: MIT
 *
 * Forks that are outstanding when their frames are left: by an interrupt, in each of its ways, and by a return. And
 * what the subtasks of one task share: budget, memory, outcome. */
#include "swarm.h"

/* --- Interrupts ------------------------------------------------------------------------------------------------- */

/* Until it is interrupted. */
static int allocate_for_ever(void *arg, void **value)
{
    struct swarm *swarm = arg;
    (void)value;
    swarm_note_start(swarm);
    for (;;) {
        void *block = keep(stint_malloc(64 * KIB));
        if (block == NULL)
            return ENOMEM;
        stint_free(block);
        sched_yield();
    }
}

static void note_end(void *arg)
{
    struct swarm *swarm = arg;
    atomic_fetch_add(&swarm->ended, 1);
    if (atomic_load(&swarm->released))
        atomic_fetch_add(&swarm->after, 1);
}

static int allocate_with_a_guard(void *arg, void **value)
{
    stint_guard guard;
    stint_guard_push(&guard, note_end, arg);
    int error = allocate_for_ever(arg, value);
    stint_guard_pop(&guard, true);
    return error;
}

static void note_release(void *arg)
{
    atomic_store(&((struct swarm *)arg)->released, true);
}

static int make_a_swarm(void *arg, void **value)
{
    struct swarm *swarm = arg;
    stint_subtask subtasks[FORKS];
    stint_guard guard;
    swarm->own = pthread_self();
    stint_guard_push(&guard, note_release, swarm);
    for (int i = 0; i < FORKS; i++)
        stint_fork(&subtasks[i], allocate_with_a_guard, swarm);
    let_one_be_stolen(swarm);
    atomic_fetch_add(&swarm->own_calls, 1);
    int error = allocate_for_ever(swarm, value);
    for (int i = FORKS; i-- > 0;)
        stint_join(&subtasks[i], NULL);
    stint_guard_pop(&guard, false);
    return error;
}

/* Every started subtask ended before the task's own frames were left. */
static void assert_settled(struct swarm *swarm, stint_on_interrupt how)
{
    assert_int_equal(atomic_load(&swarm->ended) + atomic_load(&swarm->own_calls), atomic_load(&swarm->started));
    assert_int_equal(atomic_load(&swarm->after), 0);
    if (how != STINT_FAIL) {
        assert_true(atomic_load(&swarm->released));
        assert_true(atomic_load(&swarm->started) < FORKS);
    }
}

static const stint_on_interrupt every_way[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };

TEST_IN_POOL(a_token_ends_the_subtasks_wherever_they_run)
{
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 3; i++) {
            struct swarm swarm = { .started = 0 };
            const stint_options options = options_of(every_way[i]);
            stint_future *future = submit(pool, make_a_swarm, &swarm, &options);
            while (atomic_load(&swarm.elsewhere) == 0)
                gate_nap();
            stint_future_cancel(future);
            assert_cancelled(take(future), STINT_REASON_TOKEN);
            assert_settled(&swarm, every_way[i]);
        }
    }
}

TEST_IN_POOL(a_limit_ends_the_subtasks_wherever_they_run)
{
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 3; i++) {
            struct swarm swarm = { .started = 0 };
            stint_options options = options_of(every_way[i]);
            options.budget.allocation = 4 * MIB;
            assert_limit_passed(run_in_pool(pool, make_a_swarm, &swarm, &options));
            assert_settled(&swarm, every_way[i]);
        }
    }
}

TEST_IN_POOL(a_deadline_ends_the_subtasks_wherever_they_run)
{
    for (size_t i = 0; i < 3; i++) {
        struct swarm swarm = { .started = 0 };
        stint_options options = options_of(every_way[i]);
        /* On a busy machine it may pass before one of its subtasks has started. */
        for (options.budget.run_ns = 20000000; atomic_load(&swarm.elsewhere) == 0; options.budget.run_ns *= 2) {
            memset(&swarm, 0, sizeof swarm);
            assert_outcome(run_in_pool(pool, make_a_swarm, &swarm, &options), STINT_ERROR, STINT_REASON_DEADLINE,
                           ETIMEDOUT);
        }
        assert_settled(&swarm, every_way[i]);
    }
}

TEST_IN_POOL(a_shutdown_ends_the_subtasks_wherever_they_run)
{
    for (int round = 0; round < 50; round++) {
        struct swarm swarm = { .started = 0 };
        stint_future *future = submit(pool, make_a_swarm, &swarm, NULL);
        while (atomic_load(&swarm.elsewhere) == 0)
            gate_nap();
        assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
        assert_cancelled(take(future), STINT_REASON_SHUTDOWN);
        assert_settled(&swarm, STINT_JUMP);
        no_workers(state);
        two_workers(state);
    }
}

/* --- Leaving by a return
 * -------------------------------------------------------------------------------------------- */

static int leave_forks_behind(void *arg, void **value)
{
    struct swarm *swarm = arg;
    stint_subtask subtasks[FORKS];
    (void)value;
    swarm->own = pthread_self();
    for (int i = 0; i < FORKS; i++)
        stint_fork(&subtasks[i], allocate_with_a_guard, swarm);
    let_one_be_stolen(swarm);
    return 0;
}

TEST_IN_POOL(a_task_that_returns_without_joining_has_failed_and_leaves_nothing_running)
{
    for (int round = 0; round < 20; round++) {
        struct swarm swarm = { .started = 0 };
        const stint_outcome outcome = run_in_pool(pool, leave_forks_behind, &swarm, NULL);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
        assert_int_equal(atomic_load(&swarm.ended), atomic_load(&swarm.started));
        assert_true(atomic_load(&swarm.started) < FORKS);
    }
}

static int run_what_leaves_forks_behind(void *arg, void **value)
{
    stint_outcome outcome;
    stint_subtask subtask;
    void *result = NULL;
    stint_fork(&subtask, do_nothing, NULL);
    int error = stint_run(leave_forks_behind, arg, NULL, &outcome);
    if (stint_join(&subtask, &result) != 0)
        return EPROTO;
    *value = (void *)(uintptr_t)(error == 0 && outcome.status == STINT_ERROR && outcome.error == EINVAL);
    return 0;
}

TEST_IN_POOL(an_inner_scope_settles_its_own_forks_and_no_others)
{
    struct swarm swarm = { .elsewhere = 1 }; /* what an inner scope forks is never stolen */
    const stint_outcome outcome = run_in_pool(pool, run_what_leaves_forks_behind, &swarm, NULL);
    assert_ok(outcome);
    assert_ptr_equal(outcome.value, (void *)1);
    assert_int_equal(atomic_load(&swarm.started), 0);
}

static int pass_the_limit_with_forks(void *arg, void **value)
{
    stint_subtask subtasks[FORKS];
    for (int i = 0; i < FORKS; i++)
        stint_fork(&subtasks[i], do_nothing, NULL);
    ((struct swarm *)arg)->own = pthread_self();
    return allocate_for_ever(arg, value);
}

static int go_on_after_an_inner_interrupt(void *arg, void **value)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_subtask before;
    stint_subtask after;
    stint_outcome outcome;
    void *results[2] = { NULL, NULL };
    options.budget.allocation = MIB;
    stint_fork(&before, do_nothing, NULL);
    if (stint_run(pass_the_limit_with_forks, arg, &options, &outcome) != 0 ||
        outcome.reason != STINT_REASON_ALLOCATION_LIMIT)
        return EPROTO;
    stint_fork(&after, do_nothing, NULL);
    if (stint_join(&after, &results[0]) != 0 || stint_join(&before, &results[1]) != 0)
        return EPROTO;
    *value = arg;
    return 0;
}

TEST_IN_POOL(a_task_goes_on_forking_after_an_inner_scope_was_interrupted)
{
    struct swarm swarm = { .started = 0 };
    for (int round = 0; round < 20; round++)
        assert_ok(run_in_pool(pool, go_on_after_an_inner_interrupt, &swarm, NULL));
}

/* --- What subtasks share
 * -------------------------------------------------------------------------------------------- */

#define DEPTH 10
#define BLOCK ((size_t)1000)

struct list {
    struct list *next;
    char bytes[BLOCK - sizeof(struct list *)];
};

/* A list of 2^depth blocks, allocated all over the pool. */
static int allocate_a_tree(void *arg, void **value)
{
    uintptr_t depth = (uintptr_t)arg;
    stint_subtask left;
    void *lists[2] = { NULL, NULL };
    if (depth == 0) {
        struct list *item = stint_calloc(1, sizeof *item);
        *value = item;
        return item != NULL ? 0 : ENOMEM;
    }
    stint_fork(&left, allocate_a_tree, (void *)(depth - 1));
    int error = allocate_a_tree((void *)(depth - 1), &lists[0]);
    error |= stint_join(&left, &lists[1]);
    struct list *last = lists[0];
    if (error != 0 || last == NULL)
        return error;
    while (last->next != NULL)
        last = last->next;
    last->next = lists[1];
    *value = lists[0];
    return 0;
}

TEST_IN_POOL(what_subtasks_allocate_is_charged_exactly_and_committed_with_the_task)
{
    for (int round = 0; round < 20; round++) {
        const stint_outcome outcome = run_in_pool(pool, allocate_a_tree, (void *)DEPTH, NULL);
        assert_ok(outcome);
        assert_int_equal(outcome.usage.allocated, (BLOCK + 15) / 16 * 16 << DEPTH);
        size_t length = 0;
        for (struct list *item = outcome.value; item != NULL; length++) {
            struct list *next = item->next;
            stint_free(item);
            item = next;
        }
        assert_int_equal(length, 1 << DEPTH);
    }
}

TEST_IN_POOL(a_budget_that_is_just_enough_is_enough_wherever_the_subtasks_run)
{
    for (int round = 0; round < 20; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = (BLOCK + 15) / 16 * 16 << DEPTH;
        const stint_outcome enough = run_in_pool(pool, allocate_a_tree, (void *)DEPTH, &options);
        assert_ok(enough);
        for (struct list *item = enough.value; item != NULL;) {
            struct list *next = item->next;
            stint_free(item);
            item = next;
        }
        options.budget.allocation--;
        assert_limit_passed(run_in_pool(pool, allocate_a_tree, (void *)DEPTH, &options));
    }
}

TEST_IN_POOL(a_task_whose_subtasks_allocate_without_end_leaks_nothing)
{
    size_t before = 0;
    for (int round = 0; round < 60; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.memory = 8 * MIB;
        assert_outcome(run_in_pool(pool, allocate_a_tree, (void *)16, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT,
                       ENOMEM);
        if (round == 20)
            before = resident();
    }
    assert_in_range(resident(), 0, before + 32 * MIB + quarantine_room(8 * MIB));
}

TEST_MAIN()
