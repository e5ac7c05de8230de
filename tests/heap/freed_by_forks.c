/* SPDX-License-Identifier: MIT
 *
 * Forks that free, on another thread, blocks of their task, while the task is measured without a pause. The blocks
 * have sizes of which mimalloc would give up full pages at once, late, or never. */
#include "pools.h"

#include <stint/fork.h>

#define BLOCKS 512
#define ROUNDS 25

/* Resident bytes for each byte that the program holds. */
#ifdef __SANITIZE_THREAD__
#define RESIDENT 16
#else
#define RESIDENT 1
#endif

struct batch {
    size_t size;
    unsigned char *blocks[BLOCKS];
    atomic_uint begun;
    atomic_bool freed;
    atomic_size_t wrong;
};

static int free_all(void *arg, void **value)
{
    struct batch *batch = arg;
    (void)value;
    atomic_store(&batch->begun, 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        unsigned char *block = batch->blocks[i];
        if (block[0] != (unsigned char)i || block[batch->size - 1] != (unsigned char)i)
            atomic_fetch_add(&batch->wrong, 1);
        stint_free(block);
    }
    atomic_store(&batch->freed, true);
    return 0;
}

static int allocate_and_measure(void *arg, void **value)
{
    struct batch *batch = arg;
    (void)value;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            batch->blocks[i] = memset(stint_malloc(batch->size), (unsigned char)i, batch->size);
        atomic_store(&batch->begun, 0);
        atomic_store(&batch->freed, false);
        stint_subtask subtask;
        stint_fork(&subtask, free_all, batch);
        have_stolen(&batch->begun);
        stint_usage used;
        while (!atomic_load(&batch->freed))
            stint_usage_now(&used, NULL);
        stint_join(&subtask, NULL);
    }
    return 0;
}

TEST(a_task_is_measured_while_its_forks_free_its_blocks)
{
    static const size_t sizes[] = { 64, 500, 9000, 40000 };
    stint_pool *pool = make_pool(.workers = 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct batch batch = { .size = sizes[i] };
        size_t before = resident();
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.memory = BLOCKS * sizes[i] * 2 + MIB;
        stint_future *future;
        assert_int_equal(stint_submit(pool, allocate_and_measure, &batch, &options, &future), 0);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        stint_future_release(future);
        assert_ok(outcome);
        assert_int_equal(batch.wrong, 0);
        if (stint_backend_version() >= 30503) /* before, blocks in full pages count until a limit is near */
            assert_true(outcome.usage.peak <= options.budget.memory);
        assert_in_range(resident(), 0, before + RESIDENT * (BLOCKS * sizes[i] * 4 + 16 * MIB));
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
