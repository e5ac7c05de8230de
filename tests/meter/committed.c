/* SPDX-License-Identifier: MIT
 *
 * usage.committed: at least the bytes that a task leaves allocated, and more only by what it freed of its first
 * blocks. */
#include "support.h"

#define MOST_BEYOND (36 * KIB) /* include/stint/task.h */

struct work {
    size_t size; /* of a block */
    size_t count;
    size_t left; /* of them that it does not free */
    void **blocks;
};

/* The first ones are freed. */
static int allocate_and_free(void *arg, void **value)
{
    struct work *work = arg;
    void *list = NULL;
    (void)value;
    for (size_t i = 0; i < work->count; i++) {
        work->blocks[i] = stint_malloc(work->size);
        if (work->blocks[i] == NULL)
            return ENOMEM;
        if (i >= work->count - work->left) {
            *(void **)work->blocks[i] = list;
            list = work->blocks[i];
        }
    }
    for (size_t i = 0; i < work->count - work->left; i++)
        stint_free(work->blocks[i]);
    *value = list;
    return 0;
}

static size_t free_list(void *list)
{
    size_t held = 0;
    while (list != NULL) {
        void *next = *(void **)list;
        held += stint_malloc_usable_size(list);
        stint_free(list);
        list = next;
    }
    return held;
}

#define MOST 4000

TEST(what_a_task_has_freed_counts_no_more_but_for_its_first_blocks)
{
    static const size_t sizes[] = { 8, 16, 48, 500, 512, 1000, 4000, 4096, 5000, 100000 };
    static const size_t counts[] = { 1, 8, 64, 100, 256, 300, 1000, MOST };
    void **blocks = calloc(MOST, sizeof *blocks);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * (sizeof counts / sizeof *counts); i++) {
        struct work work = { .size = sizes[i / 8], .count = counts[i % 8], .blocks = blocks };
        for (unsigned half = 0; half < 2 && work.size * work.count < 8 * MIB; half++) {
            work.left = half * (work.count / 2);
            stint_outcome outcome = run_task(allocate_and_free, &work, NULL);
            assert_ok(outcome);
            size_t held = free_list(outcome.value);
            if (outcome.usage.committed < held || outcome.usage.committed > held + MOST_BEYOND)
                print_error("%zu blocks of %zu\n", work.count, work.size);
            assert_in_range(outcome.usage.committed, held, held + MOST_BEYOND);
        }
    }
    free(blocks);
}

TEST_MAIN()
