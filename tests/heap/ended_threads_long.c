/* SPDX-License-Identifier: MIT
 *
 * Hundreds of thousands of threads that end, after their tasks have left blocks for others to free: each block lies on
 * a shelf until a later one takes its place. No block is damaged, and memory stays steady, although heaps of ended
 * threads are never destroyed. */
#include "support.h"

#include <stdatomic.h>

#define SHELF 4096
#define BLOCKS 60   /* of a task, at most */
#define AT_ONCE 8   /* threads of each that starts some, */
#define STARTERS 2  /* of which there are so many */
#define FIRST 50000 /* tasks */
#define MORE 450000

struct block {
    size_t size;
    unsigned char bytes[];
};

static _Atomic(struct block *) shelf[SHELF];
static atomic_uint tasks;
static atomic_uint damaged;

struct results {
    uint64_t random;
    size_t count;
    struct block *blocks[BLOCKS];
};

static void shelve(uint64_t *random, struct block *block)
{
    struct block *before = atomic_exchange(&shelf[random_below(random, SHELF)], block);
    if (before == NULL)
        return;
    if (before->bytes[0] != before->size % 251 || before->bytes[before->size - 1] != before->size % 251)
        atomic_fetch_add(&damaged, 1);
    stint_free(before);
}

static size_t some_size(uint64_t *random)
{
    static const size_t largest[] = { 300, 300, 300, 5000, 5000, 70000 };
    return 1 + random_below(random, largest[random_below(random, 6)]);
}

static int make_results(void *arg, void **value)
{
    struct results *results = arg;
    (void)value;
    results->count = random_below(&results->random, BLOCKS);
    for (size_t i = 0; i < results->count; i++) {
        size_t size = some_size(&results->random);
        struct block *block = results->blocks[i] = stint_malloc(sizeof *block + size);
        *block = (struct block){ .size = size };
        memset(block->bytes, (int)(size % 251), size);
        if (random_below(&results->random, 8) == 0)
            shelve(&results->random, NULL);
    }
    return random_below(&results->random, 3) == 0 ? EIO : 0;
}

static void *run_some(void *number)
{
    struct results results = { .random = (uintptr_t)number * UINT64_C(0x9e3779b97f4a7c15) };
    for (size_t i = random_below(&results.random, 6); i > 0; i--) {
        stint_outcome outcome;
        if (stint_run(make_results, &results, NULL, &outcome) != 0)
            atomic_fetch_add(&damaged, 1);
        for (size_t j = 0; j < results.count && outcome.status == STINT_OK; j++)
            shelve(&results.random, results.blocks[j]);
        atomic_fetch_add(&tasks, 1);
    }
    return NULL;
}

static void *start_threads(void *until)
{
    static _Atomic uintptr_t number;
    while (atomic_load(&tasks) < *(unsigned *)until) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_some, (void *)(1 + atomic_fetch_add(&number, 1))),
                             0);
        for (size_t i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
    return NULL;
}

static void run_until(unsigned until)
{
    pthread_t starters[STARTERS];
    for (size_t i = 0; i < STARTERS; i++)
        assert_int_equal(pthread_create(&starters[i], NULL, start_threads, &until), 0);
    for (size_t i = 0; i < STARTERS; i++)
        pthread_join(starters[i], NULL);
}

TEST(a_steady_number_of_blocks_of_ended_threads_takes_a_steady_room)
{
    run_until(FIRST);
    size_t before = resident();
    run_until(FIRST + repeats(MORE));
    size_t after = resident();
    for (size_t i = 0; i < SHELF; i++)
        stint_free(atomic_exchange(&shelf[i], NULL));
    assert_int_equal(damaged, 0);
    assert_in_range(after, 0, before + before / 2);
    print_message("%zu MiB, then %zu\n", before >> 20, after >> 20);
}

TEST_MAIN()
