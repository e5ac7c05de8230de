/* SPDX-License-Identifier: MIT
 *
 * Task heaps; see heap.h for who may call what.
 *
 * A new mimalloc heap with a block in it costs 0.8 to 2 µs, a kept one next to nothing. So one empty heap a thread is
 * kept warm. Whether a heap is empty is asked of its areas (5 ns when there is none, 1 to 2 ns each): a block that
 * another thread has freed may still count as live, so the answer "empty" is exact and the other errs to the safe side:
 * such a heap is committed or destroyed, never handed on with a live block in it. */
#include "heap.h"

#include "orphans.h"
#include "process.h"
#include "roots.h"
#include "thread.h"
#include "wipe.h"

#define COLLECT_INTERVAL ((size_t)8 << 20)

struct sti_heap *sti_heap_take(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->warm;
    if (heap != NULL) {
        thread->warm = NULL;
        return heap;
    }
    heap = sti_process_malloc(sizeof *heap);
    if (heap == NULL)
        return NULL;
    *heap = (struct sti_heap){ .backend = sti_backend_heap_new() };
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return NULL;
    }
    return heap;
}

static bool is_own_page(uintptr_t page)
{
    return !sti_orphans_contain(page);
}

static size_t held_by(const struct sti_heap *heap)
{
    return STI_BACKEND_ADOPTS && sti_orphans_any() ? sti_backend_heap_held_in(heap->backend, is_own_page)
                                                   : sti_backend_heap_held(heap->backend);
}

size_t sti_heap_held(const struct sti_heap *list)
{
    size_t held = 0;
    for (; list != NULL; list = list->next)
        held += held_by(list);
    return held;
}

/* Without a live block, be it an orphan. */
static bool is_empty(const struct sti_heap *heap)
{
    return sti_backend_heap_held(heap->backend) == 0;
}

void sti_heap_collect(const struct sti_heap *list)
{
    for (; list != NULL; list = list->next)
        sti_backend_heap_collect(list->backend);
}

static void keep_warm(struct sti_thread *thread, struct sti_heap *heap)
{
    heap->next = NULL;
    if (thread->warm == NULL) {
        thread->warm = heap;
        return;
    }
    sti_backend_heap_destroy(heap->backend);
    sti_process_free(heap);
}

struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list)
{
    struct sti_heap **link = &list;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        if (!is_empty(heap)) {
            link = &heap->next;
        } else {
            *link = heap->next;
            keep_warm(thread, heap);
        }
    }
    return list;
}

static void notice_orphan(uintptr_t begin, uintptr_t end, size_t block_size, void *found)
{
    (void)end;
    (void)block_size;
    *(bool *)found = *(bool *)found || sti_orphans_contain(begin);
}

static bool has_adopted(sti_backend_heap *heap)
{
    bool found = false;
    if (STI_BACKEND_ADOPTS && sti_orphans_any())
        sti_backend_heap_areas(heap, notice_orphan, &found);
    return found;
}

struct blocks {
    void **list; /* NULL while they are only counted */
    size_t count;
};

static void list_own_block(void *block, uintptr_t page, void *argument)
{
    struct blocks *blocks = argument;
    if (!is_own_page(page))
        return;
    if (blocks->list != NULL)
        blocks->list[blocks->count] = block;
    blocks->count++;
}

/* A page may go with its last block, so none is freed while they are visited. Without memory for the list they stay. */
static void free_own_blocks(sti_backend_heap *heap)
{
    struct blocks blocks = { NULL, 0 };
    sti_backend_heap_blocks(heap, list_own_block, &blocks);
    blocks.list = sti_process_malloc(blocks.count * sizeof *blocks.list);
    if (blocks.list == NULL)
        return;
    blocks.count = 0;
    sti_backend_heap_blocks(heap, list_own_block, &blocks);
    for (size_t i = 0; i < blocks.count; i++)
        sti_backend_free(blocks.list[i]);
    sti_process_free(blocks.list);
}

static void commit(struct sti_heap *heap)
{
    if (STI_BACKEND_ABANDONS)
        sti_orphans_note(heap->backend);
    else if (STI_BACKEND_ADOPTS && sti_orphans_any())
        sti_orphans_forget(heap->backend);
    sti_backend_heap_commit(heap->backend);
}

static void wipe_own_block(void *block, uintptr_t page, void *unused)
{
    (void)unused;
    if (!STI_BACKEND_ADOPTS || !sti_orphans_any() || is_own_page(page))
        sti_wipe_block(block);
}

static void destroy(struct sti_heap *heap)
{
    bool adopted = has_adopted(heap->backend);
    if (heap->wiped || adopted)
        sti_backend_heap_collect(heap->backend); /* what other threads have freed is live no more */
    if (heap->wiped)
        sti_backend_heap_blocks(heap->backend, wipe_own_block, NULL);
    if (!adopted) {
        sti_backend_heap_destroy(heap->backend);
        return;
    }
    free_own_blocks(heap->backend);
    commit(heap);
}

static void end_each(struct sti_heap *list, void (*end)(struct sti_heap *))
{
    while (list != NULL) {
        struct sti_heap *next = list->next;
        sti_heap_map_drop(&list->map);
        end(list);
        sti_process_free(list);
        list = next;
    }
}

/* What other threads free of committed blocks comes back when this thread's part of the process's heap is collected. A
 * worker that allocates in tasks alone would never do that. */
void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list)
{
    list = sti_heap_drop_empty(thread, list);
    for (const struct sti_heap *heap = list; heap != NULL; heap = heap->next)
        thread->handed_over += sti_backend_heap_committed(heap->backend);
    sti_memprof_end_heaps(thread, list, true);
    end_each(list, commit);
    if (thread->handed_over > COLLECT_INTERVAL) {
        sti_backend_process_collect(false);
        thread->handed_over = 0;
    }
}

/* Append one list to another. */
static struct sti_heap *joined(struct sti_heap *list, struct sti_heap *rest)
{
    struct sti_heap **link = &list;
    while (*link != NULL)
        link = &(*link)->next;
    *link = rest;
    return list;
}

/* Take the pinned heaps off the list. */
static struct sti_heap *split_pinned(struct sti_heap **list)
{
    struct sti_heap *pinned = NULL;
    struct sti_heap **link = list;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        if (heap->pinned) {
            *link = heap->next;
            heap->next = pinned;
            pinned = heap;
        } else {
            link = &heap->next;
        }
    }
    return pinned;
}

size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task)
{
    list = sti_heap_drop_empty(thread, list);
    if (list == NULL)
        return 0;
    size_t kept = 0;
    if (sti_roots_scan_due()) {
        const struct sti_heap *kept_before = thread->kept;
        list = joined(list, thread->kept);
        sti_roots_pin(list, task);
        for (const struct sti_heap *heap = list; heap != kept_before; heap = heap->next)
            kept += heap->pinned ? sti_backend_heap_held(heap->backend) : 0;
        thread->kept = split_pinned(&list);
    }
    sti_memprof_end_heaps(thread, list, false);
    end_each(list, destroy);
    return kept;
}

void sti_heap_end_thread(struct sti_thread *thread)
{
    /* The warm heap is empty. What is kept stays for good. */
    if (thread->warm != NULL) {
        sti_backend_heap_destroy(thread->warm->backend);
        sti_process_free(thread->warm);
        thread->warm = NULL;
    }
    sti_memprof_end_heaps(thread, thread->kept, true);
    end_each(thread->kept, commit);
    thread->kept = NULL;
}
