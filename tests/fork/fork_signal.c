/* SPDX-License-Identifier: MIT
 *
 * Forks of preemptible tasks: the signal that ends them may come at any instruction of the inline functions. */
#include "swarm.h"

/* No sample point at all: only a signal reaches it. */
static int spin_for_ever(void *arg, void **value)
{
    struct swarm *swarm = arg;
    (void)value;
    swarm_note_start(swarm);
    volatile unsigned turns = 0;
    for (;;)
        turns = turns + 1;
    return 0;
}

static int make_a_spinning_swarm(void *arg, void **value)
{
    struct swarm *swarm = arg;
    stint_subtask subtasks[FORKS];
    swarm->own = pthread_self();
    for (int i = 0; i < FORKS; i++)
        stint_fork(&subtasks[i], spin_for_ever, swarm);
    let_one_be_stolen(swarm);
    spin_for_ever(swarm, value);
    for (int i = FORKS; i-- > 0;)
        stint_join(&subtasks[i], NULL);
    return 0;
}

TEST_IN_POOL(a_preemptible_task_is_ended_with_its_subtasks)
{
    for (int round = 0; round < 3; round++) {
        struct swarm swarm = { .started = 0 };
        stint_options options = STINT_OPTIONS_INIT;
        options.preemptible = true;
        /* Until there was time enough for both to start. */
        for (options.budget.run_ns = 200000000; atomic_load(&swarm.started) < 2; options.budget.run_ns *= 2) {
            atomic_store(&swarm.started, 0);
            assert_outcome(run_in_pool(pool, make_a_spinning_swarm, &swarm, &options), STINT_ERROR,
                           STINT_REASON_DEADLINE, ETIMEDOUT);
        }
        assert_int_equal(atomic_load(&swarm.started), 2);
    }
}

/* Forks and joins without end, while the signal may come at any of their instructions. */
static int fork_for_ever(void *arg, void **value)
{
    stint_subtask first;
    stint_subtask second;
    (void)value;
    for (;;) {
        stint_fork(&first, do_nothing, arg);
        stint_fork(&second, do_nothing, arg);
        stint_join(&second, NULL);
        stint_join(&first, NULL);
    }
    return 0;
}

static int recurse_for_ever(void *arg, void **value)
{
    uintptr_t depth = (uintptr_t)arg;
    stint_subtask subtask;
    (void)value;
    do {
        if (depth > 0) {
            stint_fork(&subtask, recurse_for_ever, (void *)(depth - 1));
            stint_join(&subtask, NULL);
        }
    } while (depth == 10);
    return 0;
}

TEST_IN_POOL(a_signal_may_come_in_the_midst_of_forks_and_joins)
{
    for (uint64_t round = 0; round < 60; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.preemptible = true;
        options.budget.run_ns = 1000000 + 37000 * round;
        const stint_outcome outcome =
            run_in_pool(pool, round % 2 == 0 ? fork_for_ever : recurse_for_ever, (void *)10, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    }
}

TEST_MAIN()
