/* SPDX-License-Identifier: MIT
 *
 * Limits know nothing of a profile: random tasks come to the same outcome without one and with one of any rate. */
#include "support.h"

#define TASKS 500
#define BLOCKS 32

static void *follow(const stint_memprof_allocation *allocation, void *arg)
{
    (void)arg;
    return stint_malloc(1 + allocation->size % 100);
}

static void forget(void *metadata, stint_memprof_end end, void *arg)
{
    (void)end;
    (void)arg;
    stint_free(metadata);
}

static int allocate_at_random(void *arg, void **value)
{
    uint64_t random = *(uint64_t *)arg;
    void *blocks[BLOCKS] = { NULL };
    (void)value;
    for (size_t steps = random_below(&random, 400); steps > 0; steps--) {
        void **block = &blocks[random_below(&random, BLOCKS)];
        size_t kind = random_below(&random, 10);
        if (kind == 0) {
            stint_outcome outcome;
            stint_options options = STINT_OPTIONS_INIT;
            uint64_t seed = random_next(&random);
            options.budget.allocation = random_size(&random, 20);
            if (steps % 4 == 0)
                stint_run(allocate_at_random, &seed, &options, &outcome);
        } else if (kind < 3) {
            stint_free(*block);
            *block = NULL;
        } else {
            void *moved = stint_realloc(*block, random_size(&random, 16));
            if (moved == NULL)
                return ENOMEM;
            *block = moved;
        }
    }
    if (random_below(&random, 5) == 0)
        return EIO;
    for (size_t i = 1; i < BLOCKS; i++) /* the first is committed */
        stint_free(blocks[i]);
    return 0;
}

static void run_tasks(stint_outcome *outcomes)
{
    uint64_t random = 11;
    for (size_t i = 0; i < TASKS; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        uint64_t seed = random_next(&random);
        size_t limits = random_below(&random, 4);
        options.on_interrupt = limits == 3 ? STINT_FAIL : STINT_JUMP;
        if (limits == 1 || limits == 3)
            options.budget.allocation = random_size(&random, 23);
        if (limits >= 2)
            options.budget.memory = random_size(&random, 21);
        outcomes[i] = run_task(allocate_at_random, &seed, &options);
    }
}

TEST(outcomes_are_the_same_at_every_rate)
{
    static stint_outcome without[TASKS];
    static stint_outcome with[TASKS];
    size_t of_status[3] = { 0 };
    run_tasks(without);
    for (size_t i = 0; i < TASKS; i++)
        of_status[without[i].status]++;
    assert_true(of_status[STINT_OK] > TASKS / 10);
    assert_true(of_status[STINT_ERROR] > TASKS / 10);
    for (size_t interval = 8; interval <= 8 * MIB; interval *= 16) {
        stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
        options.interval = interval;
        options.tracker = (stint_memprof_tracker){ follow, NULL, forget };
        assert_int_equal(stint_memprof_start(&options), 0);
        run_tasks(with);
        assert_int_equal(stint_memprof_stop(), 0);
        for (size_t i = 0; i < TASKS; i++) {
            assert_outcome(with[i], without[i].status, without[i].reason, without[i].error);
            assert_int_equal(with[i].usage.allocated, without[i].usage.allocated);
            assert_int_equal(with[i].usage.peak, without[i].usage.peak);
        }
    }
}

TEST_MAIN()
