/* SPDX-License-Identifier: MIT
 *
 * All that a scope holds, and a thread keeps for its next tasks; see held.h. */
#include "held.h"

#include <stddef.h>
#include <stdint.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "heap.h"
#include "libc_heap.h"
#include "mapping.h"
#include "nursery.h"
#include "retired.h"

size_t sti_heap_list_held(const struct sti_heap *list)
{
    size_t held = 0;
    for (; list != NULL; list = list->next) {
        sti_backend_theap_collect(list->theap, false);
        held += sti_heap_bytes(list);
    }
    return held;
}

/* Nobody else can have its pages. */
static size_t held_with_pages(const struct sti_heap *heap)
{
    struct sti_backend_size size = sti_backend_theap_size(heap->theap);
    return size.pages > size.held ? size.pages : size.held;
}

static __attribute__((noinline)) size_t held_in_heaps(const struct sti_scope *scope)
{
    size_t held = scope->young.held + sti_mapped_held(scope->mapped);
    if (__builtin_expect(scope->libc_heaps != NULL, 0))
        held += sti_libc_heap_held(scope);
    for (const struct sti_heap *heap = scope->heaps; heap != NULL; heap = heap->next)
        held += heap != scope->heap ? held_with_pages(heap) : sti_backend_theap_size(heap->theap).held;
    return held;
}

size_t sti_heap_held(const struct sti_scope *scope)
{
    bool is_simple =
        ((uintptr_t)scope->libc_heaps | (uintptr_t)scope->heaps | (uintptr_t)scope->mapped) == (uintptr_t)NULL;
    return is_simple ? scope->young.held : held_in_heaps(scope);
}

static size_t heap_list_length(const struct sti_heap *list)
{
    size_t count = 0;
    for (; list != NULL; list = list->next)
        count++;
    return count;
}

/* The scope's own heap stays: more comes. */
static void heaps_sweep(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_heap *own = NULL;
    for (struct sti_heap **link = &scope->heaps; *link != NULL; link = &(*link)->next) {
        if (*link == scope->heap) {
            own = *link;
            *link = own->next;
            break;
        }
    }
    scope->heaps = sti_heap_drop_empty(thread, scope->heaps);
    size_t count = heap_list_length(scope->heaps);
    scope->sweep_at = count < STI_SCOPE_FIRST_SWEEP / 2 ? STI_SCOPE_FIRST_SWEEP : 2 * count;
    scope->heap_count = count;
    if (own != NULL) {
        own->next = scope->heaps;
        scope->heaps = own;
    }
}

void sti_heap_measure_exactly(struct sti_thread *thread, struct sti_scope *scope)
{
    for (const struct sti_heap *heap = scope->heaps; heap != NULL; heap = heap->next)
        sti_backend_theap_collect(heap->theap, false);
    sti_libc_heap_collect(scope);
    heaps_sweep(thread, scope);
    sti_nursery_measure(thread, scope);
}

size_t sti_heap_hand_over(struct sti_thread *thread, struct sti_scope *inner, struct sti_scope *outer)
{
    size_t held = 0;
    struct sti_heap *heap = sti_heap_drop_empty(thread, inner->heaps);
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        heap->next = outer->heaps;
        outer->heaps = heap;
        outer->heap_count++;
        held += held_with_pages(heap);
        heap = next;
    }
    if (outer->heap_count >= outer->sweep_at)
        heaps_sweep(thread, outer);
    return held;
}

void sti_heap_give_back(struct sti_thread *thread)
{
    sti_nursery_give_back(thread);
    if (thread->libc != NULL && sti_heap_is_empty(thread->libc))
        sti_libc_heap_retire(thread);
    sti_retired_give_back(thread);
    sti_heap_give_warm_back(thread);
}

void sti_heap_end_thread(struct sti_thread *thread)
{
    sti_nursery_end_thread(thread);
    sti_libc_heap_retire(thread);
    sti_heap_give_warm_back(thread);
    sti_retired_end_thread(thread);
}
