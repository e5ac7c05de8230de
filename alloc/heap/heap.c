/* SPDX-License-Identifier: MIT
 *
 * Heaps of tasks: made, committed and ended; see heap.h for the callers. Those that are retired while they have live
 * blocks are retired.c's. */
#include "heap.h"
#include "retired.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/platform/assumption.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "free.h"

/* --- Task heaps.
 *
 * Whether a heap is empty is asked of its areas (70 ns, and 9 for each): a block that another thread has freed may
 * still count as live, so the answer "empty" is exact and the other errs to the safe side. But only of those that are
 * the thread's: in one that mimalloc has given up others may be freeing. Of these there is but a count (0.2 µs). */

/* Out of line: what mimalloc counts is 4 KiB. */
static __attribute__((noinline)) struct sti_backend_pages count_pages(const struct sti_heap *heap)
{
    if (sti_assumption_fails(STI_ASSUMED_COUNTS))
        return (struct sti_backend_pages){ SIZE_MAX, 0 };
    return sti_backend_heap_pages(heap->backend);
}

void sti_heap_complete_counts(const struct sti_heap *heap)
{
    count_pages(heap);
}

/* As long as mimalloc has not ended a thread it gives up no page of a heap that the thread has made for a scope
 * (backend.h), and nobody need ask its counts. What ends a thread in it is a destructor of a key, and the program's
 * own, which come later, may run scopes, in further rounds too. Ours comes right behind mimalloc's, since its key does,
 * in each round: so whatever runs then finds it noted. */
static pthread_key_t behind_mimalloc_s;
static bool is_notified_of_ends;
static _Thread_local bool has_ended;

static void heap_note_thread_end(void *unused)
{
    (void)unused;
    has_ended = true;
}

static bool is_end_noted(void)
{
    return has_ended || (is_notified_of_ends && sti_real_specific_set(behind_mimalloc_s, &has_ended) == 0);
}

/* Or it is not known. */
bool sti_heap_has_given_up(const struct sti_heap *heap)
{
    if (!heap->may_give_up && !has_ended)
        return false;
    struct sti_backend_pages pages = count_pages(heap);
    return pages.now == SIZE_MAX || pages.given_up != heap->given_up_before;
}

struct sti_backend_size sti_heap_size(const struct sti_heap *heap)
{
    return sti_backend_theap_size(sti_backend_heap_theap(heap->backend));
}

bool sti_heap_is_empty(const struct sti_heap *heap)
{
    return heap->backend != NULL && sti_heap_size(heap).blocks == 0 && !sti_heap_has_given_up(heap);
}

bool sti_heap_renew(struct sti_heap *heap)
{
    if (!sti_heap_has_given_up(heap))
        return true;
    struct sti_backend_pages pages = count_pages(heap);
    if (pages.now != sti_heap_size(heap).areas)
        return false;
    heap->given_up_before = pages.given_up;
    heap->lasts = true;
    return true;
}

bool sti_heap_is_unused(const struct sti_heap *heap)
{
    return count_pages(heap).now == 0;
}

/* What has been given up of it is gone; the thread's part is a new one. */
bool sti_heap_adopt(struct sti_heap *heap)
{
    struct sti_backend_pages pages = count_pages(heap);
    if (pages.now != 0)
        return false;
    heap->given_up_before = pages.given_up;
    heap->may_give_up = !is_end_noted();
    return sti_process_begin_heap(heap->backend) != NULL;
}

static struct sti_heap *heap_make(void)
{
    struct sti_heap *heap = sti_process_lasting_calloc(1, sizeof *heap);
    if (heap == NULL)
        return NULL;
    heap->may_give_up = !is_end_noted();
    heap->backend = sti_process_begin_heap(NULL);
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return NULL;
    }
    return heap;
}

void sti_heap_find_part(struct sti_heap *heap)
{
    if (__builtin_expect(has_ended, 0)) /* and the thread's part with it, as it was made */
        sti_process_begin_heap(heap->backend);
    heap->theap = sti_backend_heap_theap(heap->backend);
}

static struct sti_heap *heap_begin(struct sti_heap *heap)
{
    if (heap == NULL)
        return NULL;
    heap->next = NULL;
    heap->wiped = false;
    sti_heap_find_part(heap);
    return heap;
}

struct sti_heap *sti_heap_take(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->warm;
    thread->warm = NULL;
    if (heap == NULL)
        heap = sti_retired_take(thread);
    return heap_begin(heap != NULL ? heap : heap_make());
}

struct sti_heap *sti_heap_own(const struct sti_scope *scope)
{
    while (scope->heap == NULL && scope->is_inner_subtask)
        scope = scope->outer;
    return scope->heap;
}

size_t sti_heap_bytes(const struct sti_heap *heap)
{
    if (heap->backend != NULL)
        return sti_heap_size(heap).held;
    size_t held = 0;
    for (size_t i = 0; i < heap->count; i++)
        held += heap->singles[i].size;
    return held;
}

static void keep_warm(struct sti_thread *thread, struct sti_heap *heap)
{
    if (thread->warm != NULL) {
        sti_retired_put(thread, heap);
        return;
    }
    heap->next = NULL;
    thread->warm = heap;
}

struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list)
{
    struct sti_heap **link = &list;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        if (!sti_heap_is_empty(heap)) {
            link = &heap->next;
        } else {
            *link = heap->next;
            keep_warm(thread, heap);
        }
    }
    return list;
}

static bool wipe_block(void *block, uintptr_t page, void *unused)
{
    (void)page;
    (void)unused;
    sti_wipe_block(block);
    return true;
}

void sti_heap_wipe(struct sti_heap *heap)
{
    if (heap->wiped)
        sti_backend_theap_blocks(sti_backend_heap_theap(heap->backend), wipe_block, NULL);
    heap->wiped = false;
}

static void free_singles(const struct sti_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        void *block = heap->singles[i].block;
        if (heap->is_mapped) {
            munmap(block, heap->singles[i].size);
            continue;
        }
        sti_free_rolled_back(block);
    }
}

#define AT_ONCE 256

struct batch {
    size_t count;
    void *blocks[AT_ONCE];
};

static bool take_block(void *block, uintptr_t page, void *argument)
{
    struct batch *batch = argument;
    (void)page;
    batch->blocks[batch->count++] = block;
    return batch->count < AT_ONCE;
}

/* mimalloc may give a page back as its last block is freed: so none is while the pages are walked. */
static __attribute__((noinline)) void free_blocks(const struct sti_heap *heap)
{
    sti_backend_theap *part = sti_backend_heap_theap(heap->backend);
    struct batch batch;
    do {
        batch.count = 0;
        sti_backend_theap_blocks(part, take_block, &batch);
        for (size_t i = 0; i < batch.count; i++)
            sti_backend_free(batch.blocks[i]);
    } while (batch.count == AT_ONCE);
    sti_backend_theap_collect(part, true);
}

bool sti_heap_is_destroyed_whole(const struct sti_heap *heap)
{
    return !heap->lasts && !sti_heap_has_given_up(heap);
}

static void heap_end(struct sti_heap *heap)
{
    sti_heap_wipe(heap);
    if (sti_heap_is_destroyed_whole(heap)) {
        sti_backend_heap_destroy(heap->backend);
        sti_process_free(heap);
        return;
    }
    free_blocks(heap);
    sti_retired_leave(heap);
}

void sti_heap_end(struct sti_heap *heap)
{
    sti_heap_map_drop(&heap->map);
    if (heap->backend != NULL) {
        heap_end(heap);
        return;
    }
    free_singles(heap);
    sti_process_free(heap);
}

void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list)
{
    list = sti_heap_drop_empty(thread, list);
    if (list == NULL)
        return;
    sti_sampling_end_heaps(thread, list, true);
    while (list != NULL) {
        struct sti_heap *next = list->next;
        sti_retired_put(thread, list);
        list = next;
    }
}

void sti_heap_give_warm_back(struct sti_thread *thread)
{
    if (thread->warm != NULL)
        sti_heap_end(thread->warm);
    thread->warm = NULL;
}

void sti_heap_start(void)
{
    sti_backend_prepare();
    sti_backend_thread_init(); /* it has its key by now */
    is_notified_of_ends = sti_real_specific_create(&behind_mimalloc_s, heap_note_thread_end) == 0;
}
