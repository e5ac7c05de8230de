/* SPDX-License-Identifier: MIT
 *
 * Results that any thread frees in any order, long after their tasks. Each lies at a random place of a board until
 * another result takes the place, or a thread frees it. So many heaps have a few live blocks at all times, and other
 * threads free some while the heap's thread takes a heap again, gives it up or ends. For scattered.c and
 * scattered_long.c. */
#ifndef TESTS_SCATTERED_H
#define TESTS_SCATTERED_H

#include "support.h"

#include <stdatomic.h>

#define PLACES 4096
#define MAKERS 2
#define FREERS 2
#define MAX_BLOCKS 600

struct scattered_block {
    size_t size;
    unsigned char bytes[];
};

struct board {
    _Atomic(struct scattered_block *) places[PLACES];
    size_t tasks;          /* that each maker runs */
    size_t tasks_a_thread; /* then it ends, and another thread goes on */
    unsigned size_bits;    /* of blocks */
    atomic_uint makers;    /* that still run */
    atomic_size_t wrong;
};

static struct board *board;

static inline void free_scattered(struct scattered_block *block)
{
    if (block == NULL)
        return;
    size_t i = 0;
    while (i < block->size && block->bytes[i] == (block->size * 7 & 0xff))
        i++;
    if (i != block->size)
        atomic_fetch_add(&board->wrong, 1);
    stint_free(block);
}

struct scattered_task {
    uint64_t *random;
    size_t count;
    struct scattered_block *results[MAX_BLOCKS];
};

/* One in eight fails; three of four blocks that it makes it frees. */
static inline int make_scattered(void *argument, void **value)
{
    struct scattered_task *task = argument;
    (void)value;
    size_t count = random_below(task->random, MAX_BLOCKS);
    for (size_t i = 0; i < count; i++) {
        size_t size = random_size(task->random, board->size_bits);
        struct scattered_block *block = stint_malloc(sizeof *block + size);
        block->size = size;
        memset(block->bytes, (int)(size * 7 & 0xff), size);
        if (random_below(task->random, 4) == 0)
            task->results[task->count++] = block;
        else
            stint_free(block);
    }
    return random_below(task->random, 8) == 0 ? EIO : 0;
}

static inline void *make_all(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    struct scattered_task *task = malloc(sizeof *task);
    for (size_t i = 0; i < board->tasks_a_thread; i++) {
        stint_outcome outcome;
        *task = (struct scattered_task){ .random = &random };
        if (stint_run(make_scattered, task, NULL, &outcome) != 0)
            atomic_fetch_add(&board->wrong, 1);
        for (size_t k = 0; outcome.status == STINT_OK && k < task->count; k++)
            free_scattered(atomic_exchange(&board->places[random_below(&random, PLACES)], task->results[k]));
    }
    free(task);
    *(uint64_t *)seed = random;
    return NULL;
}

/* Threads that come one after the other. */
static inline void *make_in_threads(void *seed)
{
    for (size_t done = 0; done < board->tasks; done += board->tasks_a_thread) {
        pthread_t maker;
        if (pthread_create(&maker, NULL, make_all, seed) == 0)
            pthread_join(maker, NULL);
        else
            atomic_fetch_add(&board->wrong, 1);
    }
    atomic_fetch_sub(&board->makers, 1);
    return NULL;
}

static inline void *free_all_over(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    while (atomic_load(&board->makers) > 0)
        free_scattered(atomic_exchange(&board->places[random_below(&random, PLACES)], NULL));
    return NULL;
}

static inline void check_scattered(size_t tasks, size_t tasks_a_thread, unsigned size_bits)
{
    pthread_t threads[MAKERS + FREERS];
    uint64_t seeds[MAKERS + FREERS];
    board = calloc(1, sizeof *board);
    assert_non_null(board);
    board->tasks = tasks;
    board->tasks_a_thread = tasks_a_thread;
    board->size_bits = size_bits;
    atomic_store(&board->makers, MAKERS);
    for (unsigned i = 0; i < MAKERS + FREERS; i++) {
        seeds[i] = tasks + size_bits + i;
        assert_int_equal(pthread_create(&threads[i], NULL, i < MAKERS ? make_in_threads : free_all_over, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < MAKERS + FREERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < PLACES; i++)
        free_scattered(atomic_load(&board->places[i]));
    assert_int_equal(atomic_load(&board->wrong), 0);
    free(board);
}

/* The board has pointers to everything. */
static inline int never_scan(void **state)
{
    (void)state;
    return stint_roots_set_scan(STINT_ROOT_SCAN_NEVER);
}

#endif
