/* SPDX-License-Identifier: MIT
 *
 * Task heaps; see heap.h for who may call what.
 *
 * A new mimalloc heap with a block in it costs 0.8 to 2 µs, a kept one next to nothing. So one empty heap a thread is
 * kept warm. Whether a heap is empty is asked of its areas (5 ns when there is none, 1 to 2 ns each): a block that
 * another thread has freed may still count as live, so the answer "empty" is exact and the other errs to the safe side:
 * such a heap is committed or destroyed, never handed on with a live block in it. */
#include "heap.h"

#include "process.h"
#include "roots.h"
#include "thread.h"

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
    heap->next = NULL;
    heap->backend = sti_backend_heap_new();
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return NULL;
    }
    return heap;
}

size_t sti_heap_held(const struct sti_heap *list)
{
    size_t held = 0;
    for (; list != NULL; list = list->next)
        held += sti_backend_heap_held(list->backend);
    return held;
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
        if (sti_backend_heap_held(heap->backend) > 0) {
            link = &heap->next;
        } else {
            *link = heap->next;
            keep_warm(thread, heap);
        }
    }
    return list;
}

static void end_each(struct sti_heap *list, void (*end)(sti_backend_heap *))
{
    while (list != NULL) {
        struct sti_heap *next = list->next;
        end(list->backend);
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
    end_each(list, sti_backend_heap_commit);
    if (thread->handed_over > COLLECT_INTERVAL) {
        sti_backend_process_collect();
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
    end_each(list, sti_backend_heap_destroy);
    return kept;
}

static void forget(struct sti_heap *list)
{
    while (list != NULL) {
        struct sti_heap *next = list->next;
        sti_process_free(list);
        list = next;
    }
}

void sti_heap_forget(struct sti_thread *thread)
{
    /* Where a heap belongs to its thread, mimalloc ends it with the thread, and may have done so already: its live blocks
     * stay. Elsewhere the kept ones just stay, and the warm one, which is empty, is destroyed here. */
    if (STI_BACKEND_ANY_THREAD && thread->warm != NULL)
        sti_backend_heap_destroy(thread->warm->backend);
    forget(thread->warm);
    forget(thread->kept);
    thread->warm = NULL;
    thread->kept = NULL;
}
