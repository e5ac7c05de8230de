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
#include "thread.h"

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

void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list)
{
    end_each(sti_heap_drop_empty(thread, list), sti_backend_heap_commit);
}

void sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list)
{
    end_each(sti_heap_drop_empty(thread, list), sti_backend_heap_destroy);
}

void sti_heap_forget_warm(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->warm;
    if (heap == NULL)
        return;
    thread->warm = NULL;
    /* Where a heap belongs to its thread, mimalloc ends it with the thread, and may have done so already. */
    if (STI_BACKEND_ANY_THREAD)
        sti_backend_heap_destroy(heap->backend);
    sti_process_free(heap);
}
