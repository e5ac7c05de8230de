/* SPDX-License-Identifier: MIT
 *
 * What becomes of the followed blocks of a task's heap when that ends. Thread of the heap only.
 *
 * Each thread has a log of the blocks in its heaps that were sampled: to find those of a heap, nobody walks it. A block
 * that has been freed stays in the log; it is told by the set, which has no such block of that heap any more. So a free,
 * which comes from any thread, need not touch the log. When it is full, those are dropped. */
#include "heap.h"
#include "memprof_inner.h"
#include "process.h"
#include "thread.h"

#define FIRST_CAPACITY 64

struct sti_tracked_log {
    size_t capacity;
    struct logged {
        uintptr_t block;
        const sti_backend_heap *heap;
    } blocks[];
};

static void drop_freed(struct sti_sampling *sampling)
{
    struct logged *blocks = sampling->log->blocks;
    size_t kept = 0;
    for (size_t i = 0; i < sampling->logged; i++) {
        if (sti_tracked_is_of(blocks[i].block, blocks[i].heap))
            blocks[kept++] = blocks[i];
    }
    sampling->logged = kept;
}

bool sti_memprof_reserve_log(struct sti_sampling *sampling)
{
    struct sti_tracked_log *log = sampling->log;
    size_t capacity = log != NULL ? log->capacity : 0;
    if (sampling->logged < capacity)
        return true;
    if (log != NULL)
        drop_freed(sampling);
    if (sampling->logged < capacity / 2)
        return true;
    size_t larger = capacity == 0 ? FIRST_CAPACITY : capacity * 2;
    log = sti_process_realloc(log, sizeof *log + larger * sizeof log->blocks[0]);
    if (log == NULL)
        return sampling->logged < capacity;
    log->capacity = larger;
    sampling->log = log;
    return true;
}

void sti_memprof_log_block(struct sti_sampling *sampling, uintptr_t block, const sti_backend_heap *heap)
{
    sampling->log->blocks[sampling->logged++] = (struct logged){ .block = block, .heap = heap };
}

static bool is_on(const struct sti_heap *list, const sti_backend_heap *heap)
{
    while (list != NULL && list->backend != heap)
        list = list->next;
    return list != NULL;
}

static void promote(const struct logged *logged)
{
    struct sti_tracked *entry = sti_tracked_begin_promotion(logged->block, logged->heap);
    if (entry != NULL && sti_tracked_end_promotion(entry, sti_memprof_call_promote(entry->metadata)))
        sti_memprof_call_dealloc(entry);
}

void sti_memprof_end_rolled_back(const void *block)
{
    sti_memprof_hold();
    struct sti_tracked *entry = sti_tracked_take((uintptr_t)block, STINT_MEMPROF_ROLLED_BACK);
    if (entry != NULL)
        sti_memprof_call_dealloc(entry);
    sti_memprof_leave();
}

static void end_rolled_back(const struct logged *logged)
{
    struct sti_tracked *entry = sti_tracked_take_of(logged->block, logged->heap, STINT_MEMPROF_ROLLED_BACK);
    if (entry != NULL)
        sti_memprof_call_dealloc(entry);
}

void sti_memprof_end_logged(struct sti_thread *thread, const struct sti_heap *list, bool committed)
{
    struct sti_sampling *sampling = &thread->sampling;
    struct logged *blocks = sampling->log->blocks;
    size_t kept = 0;
    sti_memprof_hold();
    for (size_t i = 0; i < sampling->logged; i++) {
        const struct logged logged = blocks[i];
        if (!is_on(list, logged.heap))
            blocks[kept++] = logged;
        else if (committed)
            promote(&logged);
        else
            end_rolled_back(&logged);
    }
    sampling->logged = kept;
    sti_memprof_leave();
}

void sti_memprof_end_thread(struct sti_sampling *sampling)
{
    sti_process_free(sampling->log);
    sti_process_free(sampling->callstack);
    sampling->log = NULL;
    sampling->logged = 0;
    sampling->callstack = NULL;
    sampling->depth = 0;
    sampling->outside = NULL;
    sampling->profile = 0; /* the next one joins anew */
    sampling->next = UINT64_MAX;
}
