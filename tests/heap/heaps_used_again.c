/* SPDX-License-Identifier: MIT
 *
 * The library's assumption on mimalloc at the end of threads (alloc/heap/retired.h), without the library: other
 * threads use a heap again, of which an ended thread's pages have been given up, once mimalloc counts no page of it;
 * and each of its blocks is found in its thread's part, while other threads free blocks of earlier ones. An argument:
 * seconds. */
#include "support.h"

#include <stdatomic.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/process.h"

#define FREERS 3
#define WORKERS 3
#define TURNS 4
#define SLOTS ((size_t)1 << 14)
#define MOST_HEAPS 4096
#define MOST_BLOCKS ((size_t)3050)
#define MARK 0xA5

static _Atomic(unsigned char *) slots[SLOTS];
static atomic_bool done;
static atomic_size_t wrong;
static unsigned seconds; /* 0: as many rounds as the test says */

static void free_block(unsigned char *block)
{
    if (block != NULL && *block != MARK)
        atomic_fetch_add(&wrong, 1);
    sti_backend_free(block);
}

static void *free_others(void *number)
{
    uint64_t random = (uintptr_t)number;
    while (!atomic_load(&done))
        free_block(atomic_exchange(&slots[random_below(&random, SLOTS)], NULL));
    return NULL;
}

/* --- Heaps of threads that have ended. --- */

static sti_backend_heap *left[MOST_HEAPS];
static size_t left_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_size_t made;
static atomic_size_t used_again;

/* Of them all: so those, too, that somebody has just taken the last page off. */
static sti_backend_heap *take(void)
{
    sti_backend_heap *heap = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < left_count && heap == NULL; i++) {
        if (sti_backend_heap_pages(left[i]).now == 0) {
            heap = left[i];
            left[i] = left[--left_count];
        }
    }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(heap != NULL ? &used_again : &made, 1);
    return sti_process_begin_heap(heap);
}

static void leave(sti_backend_heap *const *heaps)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < TURNS && left_count < MOST_HEAPS; i++)
        left[left_count++] = heaps[i];
    pthread_mutex_unlock(&lock);
}

/* --- What a thread does in each of its heaps. --- */

struct worker {
    uint64_t random;
    sti_backend_heap *heaps[TURNS];
    size_t count;
    unsigned char *blocks[MOST_BLOCKS];
};

static bool take_down(void *block, uintptr_t page, void *argument)
{
    struct worker *worker = argument;
    (void)page;
    worker->blocks[worker->count++] = block;
    return worker->count < MOST_BLOCKS;
}

static size_t fill(struct worker *worker, sti_backend_theap *part)
{
    size_t live = 0;
    for (size_t i = 50 + random_below(&worker->random, MOST_BLOCKS - 50); i > 0; i--) {
        size_t size = random_below(&worker->random, 37) == 0 ? 9000 : 16 + random_below(&worker->random, 600);
        unsigned char *block = sti_backend_theap_malloc(part, size);
        memset(block, MARK, size);
        if (random_below(&worker->random, 3) == 0)
            sti_backend_free(block);
        else
            live++;
    }
    return live;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < TURNS; i++) {
        sti_backend_theap *part = sti_backend_heap_theap(worker->heaps[i] = take());
        size_t live = fill(worker, part);
        worker->count = 0;
        sti_backend_theap_blocks(part, take_down, worker);
        if (worker->count != live)
            atomic_fetch_add(&wrong, 1);
        bool commits = random_below(&worker->random, 2) == 0;
        for (size_t k = 0; k < worker->count; k++)
            free_block(commits ? atomic_exchange(&slots[random_below(&worker->random, SLOTS)], worker->blocks[k])
                               : worker->blocks[k]);
        sti_backend_theap_collect(part, true);
        sti_backend_heap_pages(worker->heaps[i]); /* completes mimalloc's count */
    }
    return NULL;
}

static bool goes_on(unsigned round, time_t end)
{
    return seconds > 0 ? time(NULL) < end : round < repeats(400);
}

TEST(a_heap_of_ended_threads_is_used_again_once_no_page_of_it_is_counted)
{
    static struct worker workers[WORKERS];
    pthread_t freers[FREERS];
    pthread_t ids[WORKERS];
    unsigned round = 0;
    time_t end = time(NULL) + seconds;
    for (uintptr_t i = 0; i < FREERS; i++)
        assert_int_equal(pthread_create(&freers[i], NULL, free_others, (void *)(i + 1)), 0);
    for (; goes_on(round, end); round++) {
        for (unsigned i = 0; i < WORKERS; i++) {
            workers[i].random = round * WORKERS + i + 1;
            assert_int_equal(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < WORKERS; i++) {
            assert_int_equal(pthread_join(ids[i], NULL), 0);
            leave(workers[i].heaps);
        }
    }
    atomic_store(&done, true);
    for (int i = 0; i < FREERS; i++)
        assert_int_equal(pthread_join(freers[i], NULL), 0);
    for (size_t i = 0; i < SLOTS; i++)
        free_block(atomic_load(&slots[i]));
    print_message("%u threads, %zu heaps made, %zu used again\n", round * WORKERS, made, used_again);
    assert_int_equal(wrong, 0);
    assert_in_range(made, 1, MOST_HEAPS / 2);
}

int main(int count, char **arguments)
{
    seconds = count > 1 ? repeats((unsigned)strtoul(arguments[1], NULL, 10)) : 0;
    return run_all_tests(NULL, NULL);
}
