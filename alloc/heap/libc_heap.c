/* SPDX-License-Identifier: MIT
 *
 * Heaps for libc's blocks; see libc_heap.h. A scope has one, and those that inner scopes have left to it. */
#include "libc_heap.h"

#include "alloc/platform/backend.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "heap.h"
#include "retired.h"

#define MAX_LIBC_PAGES 64 /* a heap with more takes long to measure: the next scope has another */

static struct sti_heap *take_libc_heap(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->libc;
    if (heap == NULL)
        heap = sti_heap_take(thread);
    if (heap == NULL)
        return NULL;
    thread->libc = NULL;
    sti_heap_find_part(heap);
    heap->held_before = sti_heap_bytes(heap);
    return heap;
}

/* NULL: out of memory, or in no scope; then the process's will do. */
static sti_backend_theap *heap_of(struct sti_thread *thread)
{
    if (sti_thread_metered == NULL)
        return NULL;
    struct sti_scope *scope = thread->scope;
    if (__builtin_expect(scope->libc_heaps == NULL, 0))
        scope->libc_heaps = take_libc_heap(thread);
    return scope->libc_heaps != NULL ? scope->libc_heaps->theap : NULL;
}

void *sti_libc_heap_malloc(struct sti_thread *thread, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_malloc(heap, size) : sti_backend_malloc(size);
}

void *sti_libc_heap_zalloc(struct sti_thread *thread, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_zalloc(heap, size) : sti_backend_zalloc(size);
}

void *sti_libc_heap_aligned(struct sti_thread *thread, size_t alignment, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_aligned(heap, alignment, size) : sti_backend_aligned(alignment, size);
}

size_t sti_libc_heap_held(const struct sti_scope *scope)
{
    size_t held = 0;
    for (const struct sti_heap *heap = scope->libc_heaps; heap != NULL; heap = heap->next) {
        size_t bytes = sti_heap_bytes(heap);
        held += bytes > heap->held_before ? bytes - heap->held_before : 0;
    }
    return held;
}

void sti_libc_heap_collect(const struct sti_scope *scope)
{
    for (const struct sti_heap *heap = scope->libc_heaps; heap != NULL; heap = heap->next)
        sti_backend_theap_collect(heap->theap, false);
}

void sti_libc_heap_end(struct sti_thread *thread, struct sti_scope *scope, struct sti_scope *outer)
{
    struct sti_heap *heap = sti_heap_drop_empty(thread, scope->libc_heaps);
    scope->libc_heaps = NULL;
    if (outer == NULL) {
        /* libc often frees in one task what it has made in the last: heaps wait for that with few pages. */
        for (const struct sti_heap *each = heap; each != NULL; each = each->next)
            sti_backend_theap_collect(each->theap, true);
        if (heap != NULL && thread->libc == NULL && sti_heap_size(heap).areas <= MAX_LIBC_PAGES) {
            thread->libc = heap;
            heap = heap->next;
            thread->libc->next = NULL;
        }
        sti_heap_commit(thread, heap);
        return;
    }
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        heap->next = outer->libc_heaps;
        outer->libc_heaps = heap;
        heap = next;
    }
}

void sti_libc_heap_retire(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->libc;
    thread->libc = NULL;
    if (heap != NULL)
        sti_retired_put(thread, heap);
}
