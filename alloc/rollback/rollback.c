/* SPDX-License-Identifier: MIT
 *
 * The rollback of heaps; see rollback.h. Thread of the heaps. */
#include "rollback.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/heap/checked.h"
#include "alloc/heap/free.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/retained.h"
#include "alloc/heap/retired.h"
#include "alloc/interrupt/hold.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/thread.h"
#include "quarantine.h"
#include "roots.h"

/* --- The end of a heap in which something is kept. --- */

static void roll_back_block(const struct sti_heap *heap, void *block)
{
    if (heap->wiped)
        sti_wipe_block(block);
    sti_free_rolled_back(block);
}

static void end_block(uintptr_t block, size_t size, bool is_kept, void *heap)
{
    if (is_kept)
        sti_kept_watch(block, size);
    else if (((const struct sti_heap *)heap)->is_mapped)
        munmap((void *)block, size);
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
    sti_sampling_end_heaps(thread, heap, true);
    sti_backend_theap_collect(heap->theap, true);
    sti_retired_put(thread, heap);
}

/* These are about to be destroyed: take off the list those in which something has to be kept, and end them. Returns the
 * bytes in blocks that are kept. */
static size_t keep_what_is_pointed_to(struct sti_thread *thread, struct sti_heap **list, const char *task)
{
    size_t kept = sti_roots_pin(*list, task);
    if (kept == 0)
        return 0;
    sti_kept_begin(kept);
    while (*list != NULL) {
        struct sti_heap *heap = *list;
        if (sti_heap_retained(heap) == 0) {
            list = &heap->next;
        } else {
            *list = heap->next;
            end_heap(thread, heap);
            sti_kept_count_heap();
        }
    }
    return kept;
}

/* --- The end of all others. --- */

static void name_after(struct sti_heap *list, const char *task)
{
    for (; list != NULL; list = list->next)
        strncpy(list->task, task != NULL ? task : "", sizeof list->task - 1);
}

static void heap_give_up(struct sti_thread *thread, struct sti_heap *heap)
{
    if (__builtin_expect(sti_debug_is_on, 0) && heap->backend != NULL) {
        if (sti_checked_is_on)
            sti_checked_roll_back_heap(heap->theap);
        sti_heap_wipe(heap);
        if (sti_quarantine_put(thread, heap))
            return;
    }
    sti_heap_end(heap);
}

size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task)
{
    list = sti_heap_drop_empty(thread, list);
    if (list == NULL)
        return 0;
    if (__builtin_expect(sti_debug_is_on, 0))
        name_after(list, task);
    size_t kept = 0;
    if (sti_roots_scan_due())
        kept = keep_what_is_pointed_to(thread, &list, task);
    sti_sampling_end_heaps(thread, list, false);
    while (list != NULL) {
        struct sti_heap *next = list->next;
        heap_give_up(thread, list);
        list = next;
    }
    return kept;
}
