/* SPDX-License-Identifier: MIT
 *
 * Results that one thread frees while the thread that made them goes on: it runs tasks in the same nursery and rolls
 * them back, hands heaps over, and makes new heaps. Each block has a pattern, which the thread that frees the block
 * checks. */
#include "support.h"

#include <stdatomic.h>

#define PLACES 8192

struct lane {
    struct block {
        unsigned char *bytes;
        size_t size;
        unsigned char pattern;
    } blocks[PLACES];
    _Atomic size_t put;
    _Atomic size_t taken;
    atomic_bool ended;
    size_t wrong;
};

static void *free_results(void *arg)
{
    struct lane *lane = arg;
    for (;;) {
        bool ended = lane->ended;
        size_t taken = lane->taken;
        if (taken == lane->put) {
            if (ended)
                return NULL;
            continue;
        }
        struct block block = lane->blocks[taken % PLACES];
        lane->wrong += block.bytes[0] != block.pattern || block.bytes[block.size / 2] != block.pattern ||
                       block.bytes[block.size - 1] != block.pattern;
        stint_free(block.bytes);
        lane->taken = taken + 1;
    }
}

struct batch {
    size_t count;
    size_t size;
    unsigned char pattern;
    unsigned char *blocks[3000];
};

static int make_batch(void *arg, void **value)
{
    struct batch *batch = arg;
    (void)value;
    for (size_t i = 0; i < batch->count; i++)
        batch->blocks[i] = memset(stint_malloc(batch->size), batch->pattern, batch->size);
    return 0;
}

static int allocate_and_fail(void *arg, void **value)
{
    const struct batch *batch = arg;
    (void)value;
    for (size_t i = 0; i < 16; i++)
        memset(stint_malloc(batch->size), 0xee, batch->size);
    return 1;
}

static void put(struct lane *lane, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        while (lane->put - lane->taken == PLACES)
            run_task(allocate_and_fail, batch, NULL);
        lane->blocks[lane->put % PLACES] =
            (struct block){ .bytes = batch->blocks[i], .size = batch->size, .pattern = batch->pattern };
        lane->put++;
    }
    memset(batch->blocks, 0, sizeof batch->blocks); /* they would be roots */
}

static void check_results_freed_elsewhere(size_t size, size_t most, size_t total)
{
    static struct lane lane;
    static struct batch batch;
    lane.put = lane.taken = lane.wrong = 0;
    lane.ended = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_results, &lane), 0);
    uint64_t random = size;
    while (lane.put < total) {
        batch.count = 1 + random_below(&random, most);
        batch.size = size;
        batch.pattern = (unsigned char)random_below(&random, 256);
        stint_outcome outcome = run_task(make_batch, &batch, NULL);
        if (outcome.status != STINT_OK)
            lane.wrong++;
        put(&lane, &batch);
        run_task(allocate_and_fail, &batch, NULL);
    }
    lane.ended = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lane.wrong, 0);
}

TEST(what_small_tasks_left_may_be_freed_while_others_are_rolled_back)
{
    check_results_freed_elsewhere(64, 100, 400000);
    check_results_freed_elsewhere(512, 60, 250000);
}

TEST(what_large_tasks_left_may_be_freed_while_their_heaps_are_given_up)
{
    check_results_freed_elsewhere(512, 2000, 400000);
    check_results_freed_elsewhere(4000, 2000, 60000);
}

TEST(large_results_may_be_freed_while_others_are_rolled_back)
{
    check_results_freed_elsewhere(20000, 100, 10000);
}

static int never_scan(void **state)
{
    (void)state;
    return stint_roots_set_scan(STINT_ROOT_SCAN_NEVER); /* the lane has pointers to everything */
}

TEST_MAIN_WITH(never_scan, NULL)
