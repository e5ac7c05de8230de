/* SPDX-License-Identifier: MIT
 *
 * Threads end with results in their heaps. Other threads free these results block by block, while new threads use the
 * same heaps again and roll tasks back in them. No such heap is destroyed. An argument: seconds. */
#include "support.h"

#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <stdatomic.h>

/* --- No heap is destroyed of which mimalloc has given up a page. --- */

static atomic_size_t destroyed;

void __real_mi_heap_destroy(mi_heap_t *heap);
void __wrap_mi_heap_destroy(mi_heap_t *heap);

void __wrap_mi_heap_destroy(mi_heap_t *heap)
{
    mi_stats_t stats;
    stats.size = sizeof stats;
    stats.version = MI_STAT_VERSION;
    if (mi_heap_stats_get(heap, &stats) && stats.pages_abandoned.total > 0)
        atomic_fetch_add(&destroyed, 1);
    __real_mi_heap_destroy(heap);
}

/* --- A task that fails in such a heap. --- */

#define LARGE_BLOCKS ((size_t)100000)
#define LARGE_SIZE 600

static int leave_one(void *arg, void **value)
{
    (void)arg;
    *value = stint_malloc(20000); /* none for the nursery */
    return *value != NULL ? 0 : ENOMEM;
}

static int fail_with_much(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < LARGE_BLOCKS; i++)
        memset(keep(stint_malloc(LARGE_SIZE)), 1, LARGE_SIZE);
    return EIO;
}

struct run {
    stint_fn *fn;
    stint_outcome outcome;
};

static void *run_one(void *arg)
{
    struct run *run = arg;
    stint_run(run->fn, NULL, NULL, &run->outcome);
    return NULL;
}

static stint_outcome run_on_thread(stint_fn *fn)
{
    pthread_t thread;
    struct run run = { .fn = fn };
    assert_int_equal(pthread_create(&thread, NULL, run_one, &run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return run.outcome;
}

TEST(a_task_is_rolled_back_whole_in_a_heap_that_an_ended_thread_has_left)
{
    size_t before = 0;
    for (int i = 0; i < 8; i++) {
        stint_free(run_on_thread(leave_one).value);
        assert_int_equal(run_on_thread(fail_with_much).error, EIO);
        stint_malloc_trim(0);
        if (i == 1)
            before = resident();
    }
    assert_in_range(resident(), 0, before + LARGE_BLOCKS * LARGE_SIZE);
    assert_int_equal(destroyed, 0);
}

/* --- Many threads. --- */

#define FREERS 3
#define WORKERS 3
#define TASKS 4
#define SLOTS ((size_t)1 << 14)
#define MARK 0xA5
#define MOST_BLOCKS 3050
#define MOST_GROWTH (32 * MIB) /* of resident memory, from the first quarter to the end */

static _Atomic(unsigned char *) slots[SLOTS];
static atomic_bool done;
static atomic_size_t wrong;
static unsigned seconds; /* 0: as many rounds as the test says */

static void free_block(unsigned char *block)
{
    if (block != NULL && *block != MARK)
        atomic_fetch_add(&wrong, 1);
    stint_free(block);
}

static void *free_others(void *number)
{
    uint64_t random = (uintptr_t)number;
    while (!atomic_load(&done))
        free_block(atomic_exchange(&slots[random_below(&random, SLOTS)], NULL));
    return NULL;
}

/* Two in three blocks stay for the freeing threads if the task ends Ok. Meanwhile the task frees blocks of others. */
struct work {
    uint64_t random;
    bool fails;
    size_t count;
    unsigned char *left[MOST_BLOCKS];
};

static int leave_blocks(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    size_t count = 50 + random_below(&work->random, MOST_BLOCKS - 50);
    work->count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = random_below(&work->random, 37) == 0 ? 9000 : 16 + random_below(&work->random, 600);
        unsigned char *block = stint_malloc(size);
        if (block == NULL)
            return ENOMEM;
        memset(block, MARK, size);
        if (random_below(&work->random, 3) == 0)
            stint_free(block);
        else
            work->left[work->count++] = block;
        if (random_below(&work->random, 8) == 0)
            free_block(atomic_exchange(&slots[random_below(&work->random, SLOTS)], NULL));
    }
    return work->fails ? EIO : 0;
}

static void *run_tasks(void *number)
{
    struct work *work = stint_calloc(1, sizeof *work);
    work->random = (uintptr_t)number;
    for (int i = 0; i < TASKS; i++) {
        stint_outcome outcome;
        work->fails = random_below(&work->random, 2) == 0;
        if (stint_run(leave_blocks, work, NULL, &outcome) != 0 || (outcome.status == STINT_OK) == work->fails)
            atomic_fetch_add(&wrong, 1);
        for (size_t k = 0; !work->fails && k < work->count; k++)
            free_block(atomic_exchange(&slots[random_below(&work->random, SLOTS)], work->left[k]));
    }
    stint_free(work);
    return NULL;
}

static bool goes_on(unsigned round, time_t end)
{
    return seconds > 0 ? time(NULL) < end : round < repeats(400);
}

TEST(heaps_of_ended_threads_are_used_again_while_others_free_in_them)
{
    pthread_t freers[FREERS];
    pthread_t workers[WORKERS];
    uintptr_t number = 0;
    unsigned round = 0;
    size_t before = 0;
    time_t begin = time(NULL);
    for (uintptr_t i = 0; i < FREERS; i++)
        assert_int_equal(pthread_create(&freers[i], NULL, free_others, (void *)(i + 1)), 0);
    for (; goes_on(round, begin + seconds); round++) {
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&workers[i], NULL, run_tasks, (void *)++number), 0);
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_join(workers[i], NULL), 0);
        if (before == 0 && (seconds > 0 ? time(NULL) >= begin + seconds / 4 : round >= repeats(400) / 4))
            before = resident();
    }
    size_t after = resident();
    atomic_store(&done, true);
    for (int i = 0; i < FREERS; i++)
        assert_int_equal(pthread_join(freers[i], NULL), 0);
    for (size_t i = 0; i < SLOTS; i++)
        free_block(atomic_load(&slots[i]));
    print_message("%u threads, %zu KiB more\n", round * WORKERS, after > before ? (after - before) >> 10 : 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(destroyed, 0);
    assert_in_range(after, 0, before + MOST_GROWTH);
}

int main(int count, char **arguments)
{
    seconds = count > 1 ? repeats((unsigned)strtoul(arguments[1], NULL, 10)) : 0;
    stint_roots_set_scan(STINT_ROOT_SCAN_NEVER); /* the lists are among the roots */
    return run_all_tests(NULL, NULL);
}
