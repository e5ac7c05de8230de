/* SPDX-License-Identifier: MIT
 *
 * What is kept; see kept.h. */
#include "kept.h"

#include <stint/roots.h>

#include "allocate.h"
#include "heap.h"
#include "memprof.h"
#include "plain_lock.h"
#include "process.h"
#include "quiet.h"
#include "retired.h"
#include "roots.h"
#include "tracked.h"
#include "wipe.h"

/* --- Watched blocks --- */

#define LISTS ((size_t)1 << 12)
#define MOST_WATCHED ((size_t)1 << 14) /* what is kept beyond that counts for good */

_Atomic uint8_t sti_kept_marks[STI_KEPT_MARKS];

static struct watched {
    uintptr_t block;
    size_t size;
    struct watched *next;
} *lists[LISTS];
static size_t watched_count;

static _Atomic size_t kept_bytes;

static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT;

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

size_t sti_kept_bytes(void)
{
    return atomic_load_explicit(&kept_bytes, memory_order_relaxed);
}

size_t stint_kept_bytes(void)
{
    return sti_kept_bytes();
}

static struct watched **list_of(uintptr_t block)
{
    return &lists[block >> 4 & (LISTS - 1)];
}

/* Once it has come to the most that it can count, a mark stays. */
static void count_mark(uintptr_t block, int by)
{
    _Atomic uint8_t *mark = &sti_kept_marks[block >> 4 & (STI_KEPT_MARKS - 1)];
    uint8_t count = atomic_load_explicit(mark, memory_order_relaxed);
    if (count != UINT8_MAX)
        atomic_store_explicit(mark, (uint8_t)(count + by), memory_order_relaxed);
}

/* With the lock. Returns the entry, taken out; NULL: it is not watched. */
static struct watched *take_out(uintptr_t block)
{
    struct watched **link = list_of(block);
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    struct watched *entry = *link;
    if (entry == NULL)
        return NULL;
    *link = entry->next;
    watched_count--;
    count_mark(block, -1);
    return entry;
}

void sti_kept_forget(const void *block)
{
    sti_plain_mutex_lock(&lock.mutex);
    struct watched *entry = take_out((uintptr_t)block);
    sti_plain_mutex_unlock(&lock.mutex);
    if (entry == NULL)
        return;
    atomic_fetch_sub_explicit(&kept_bytes, entry->size, memory_order_relaxed);
    sti_process_free(entry);
}

/* Without memory for it, it counts for good. */
static void watch(uintptr_t block, size_t size)
{
    struct watched *entry = sti_process_malloc(sizeof *entry);
    if (entry == NULL)
        return;
    sti_plain_mutex_lock(&lock.mutex);
    bool has_room = watched_count < MOST_WATCHED;
    if (has_room) {
        *entry = (struct watched){ .block = block, .size = size, .next = *list_of(block) };
        *list_of(block) = entry;
        watched_count++;
        count_mark(block, 1);
    }
    sti_plain_mutex_unlock(&lock.mutex);
    if (!has_room)
        sti_process_free(entry);
}

/* --- The end of a heap in which something is kept --- */

static void roll_back_block(const struct sti_heap *heap, void *block)
{
    if (sti_tracked_may_contain(block))
        sti_memprof_end_rolled_back(block);
    if (heap->wiped)
        sti_wipe_block(block);
    sti_free(block);
}

static void end_block(uintptr_t block, size_t size, bool is_kept, void *heap)
{
    if (is_kept)
        watch(block, size);
    else
        roll_back_block(heap, (void *)block);
}

static void end_heap(struct sti_thread *thread, struct sti_heap *heap)
{
    sti_heap_map_visit(heap, end_block, heap);
    sti_heap_map_drop(&heap->map);
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return;
    }
    heap->next = NULL;
    sti_memprof_end_heaps(thread, heap, true);
    sti_retired_put(thread, heap);
}

size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task)
{
    size_t kept = sti_roots_pin(*list, task);
    if (kept == 0)
        return 0;
    atomic_fetch_add_explicit(&kept_bytes, kept, memory_order_relaxed);
    sti_free_by(sti_free_watched);
    while (*list != NULL) {
        struct sti_heap *heap = *list;
        if (sti_heap_kept(heap) == 0) {
            list = &heap->next;
        } else {
            *list = heap->next;
            end_heap(thread, heap);
        }
    }
    return kept;
}
