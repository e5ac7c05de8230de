/* SPDX-License-Identifier: MIT
 *
 * Heaps of tasks that ended Ok, in pages that mimalloc has given up. Another thread frees their blocks one by one,
 * while the tasks' thread looks for an empty heap, takes it again and ends it. */
#include "support.h"

#include <stdatomic.h>

#define BLOCKS 600
#define TASKS 1000
#define AHEAD 1
#define FREERS 3

struct left {
    size_t size;
    unsigned char *blocks[BLOCKS];
};

static struct left *lists[TASKS];
static atomic_size_t made;
static atomic_size_t freed[FREERS];
static atomic_size_t wrong;

static int leave_blocks(void *arg, void **value)
{
    struct left *left = arg;
    (void)value;
    for (size_t i = 0; i < BLOCKS; i++) {
        left->blocks[i] = stint_malloc(left->size);
        left->blocks[i][0] = left->blocks[i][left->size - 1] = (unsigned char)(left->size + i);
    }
    return left->size % 8 == 0 ? EIO : 0;
}

static void free_block(const struct left *left, size_t i)
{
    unsigned char expected = (unsigned char)(left->size + i);
    if (left->blocks[i][0] != expected || left->blocks[i][left->size - 1] != expected)
        atomic_fetch_add(&wrong, 1);
    stint_free(left->blocks[i]);
}

/* Frees every third block of each list. */
static void *free_a_third(void *number)
{
    size_t which = (size_t)number;
    for (size_t i = 0; i < TASKS; i++) {
        while (atomic_load(&made) <= i)
            sched_yield();
        for (size_t k = which; k < BLOCKS && lists[i]->blocks[k] != NULL; k += FREERS)
            free_block(lists[i], k);
        atomic_store(&freed[which], i + 1);
    }
    return NULL;
}

static size_t all_freed(void)
{
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < FREERS; i++) {
        size_t count = atomic_load(&freed[i]);
        least = count < least ? count : least;
    }
    return least;
}

static int use_a_heap(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < 4; i++)
        stint_free(memset(stint_malloc(200000), 1, 8));
    return 0;
}

/* From 1 KiB to 60 KiB; one in eight fails. */
static void make(size_t i)
{
    struct left *left = calloc(1, sizeof *left);
    assert_non_null(left);
    left->size = ((size_t)1 << (10 + i % 6)) + i * 31 % 1000;
    stint_outcome outcome;
    assert_int_equal(stint_run(leave_blocks, left, NULL, &outcome), 0);
    if (outcome.status != STINT_OK)
        memset(left->blocks, 0, sizeof left->blocks);
    lists[i] = left;
    atomic_store(&made, i + 1);
    while (i + 1 - all_freed() > AHEAD)
        assert_int_equal(stint_run(use_a_heap, NULL, NULL, &outcome), 0); /* looks at some that are retired */
}

TEST(heaps_from_which_another_thread_frees_are_used_again_and_ended)
{
    pthread_t threads[FREERS];
    for (size_t i = 0; i < FREERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, free_a_third, (void *)i), 0);
    for (size_t i = 0; i < TASKS / 4; i++)
        make(i);
    size_t before = resident();
    for (size_t i = TASKS / 4; i < TASKS; i++)
        make(i);
    size_t after = resident();
    for (size_t i = 0; i < FREERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong, 0);
    for (size_t i = 0; i < TASKS; i++)
        free(lists[i]);
    print_message("%zu KiB more\n", after > before ? (after - before) >> 10 : 0);
    assert_true(after < before + 128 * MIB);
}

static int never_scan(void **state)
{
    (void)state;
    return stint_roots_set_scan(STINT_ROOT_SCAN_NEVER);
}

TEST_MAIN_WITH(never_scan, NULL)
