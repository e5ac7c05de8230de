/* SPDX-License-Identifier: MIT
 *
 * Retired heaps; see retired.h. */
#include "retired.h"

#include <stdatomic.h>
#include <stddef.h>

#include "clock.h"
#include "heap.h"
#include "thread.h"

#define KEPT_EMPTY 8 /* so many are not ended though they are empty, until the thread gives back */
#define LOOKED_AT 4
#define GRACE_NS UINT64_C(100000000)

/* --- Is nobody there any more? --- */

/* It has been found without a page, and now is long enough after that. */
static bool is_deserted(struct sti_heap *heap)
{
    uint64_t now = sti_clock_now();
    if (heap->left == 0)
        heap->left = now;
    return now - heap->left >= GRACE_NS;
}

static bool is_free(struct sti_heap *heap)
{
    return sti_heap_is_empty(heap) && (!heap->given_up || is_deserted(heap));
}

/* --- The thread's list: a circle in effect, looked at a few at a time --- */

static void take_off(struct sti_thread *thread, struct sti_heap **link)
{
    *link = (*link)->next;
    thread->retired_count--;
}

struct sti_heap *sti_retired_take(struct sti_thread *thread)
{
    if (thread->retired_next == NULL || *thread->retired_next == NULL)
        thread->retired_next = &thread->retired;
    struct sti_heap **link = thread->retired_next;
    struct sti_heap *found = NULL;
    for (unsigned i = 0; i < LOOKED_AT && found == NULL && *link != NULL; i++) {
        sti_backend_theap_collect(sti_backend_heap_theap((*link)->backend), false);
        if (is_free(*link)) {
            found = *link;
            take_off(thread, link);
        } else {
            link = &(*link)->next;
        }
    }
    thread->retired_next = link;
    return found;
}

void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap)
{
    heap->given_up = sti_heap_has_given_up(heap);
    heap->left = 0;
    heap->next = thread->retired;
    thread->retired = heap;
    if (++thread->retired_count <= KEPT_EMPTY)
        return;
    struct sti_heap *empty = sti_retired_take(thread);
    if (empty != NULL)
        sti_heap_destroy(empty);
}

/* --- The process's list: of threads that have ended --- */

static _Atomic(struct sti_heap *) ownerless;

static void put_ownerless(struct sti_heap *heap)
{
    heap->next = atomic_load_explicit(&ownerless, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&ownerless, &heap->next, heap, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/* mimalloc has given up all of their pages with their threads. */
static void end_ownerless(void)
{
    struct sti_heap *heap = atomic_exchange_explicit(&ownerless, NULL, memory_order_acquire);
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        if (sti_backend_heap_size(heap->backend).areas == 0 && is_deserted(heap))
            sti_heap_destroy(heap);
        else
            put_ownerless(heap);
        heap = next;
    }
}

/* --- What is given up --- */

/* To the process; what goes to the system goes at once for all (give_back.c). */
void sti_retired_give_back(struct sti_thread *thread)
{
    struct sti_heap **link = &thread->retired;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        sti_backend_theap_collect(sti_backend_heap_theap(heap->backend), false);
        if (is_free(heap)) {
            take_off(thread, link);
            sti_heap_destroy(heap);
        } else {
            link = &heap->next;
        }
    }
    thread->retired_next = NULL;
    end_ownerless();
}

void sti_retired_end_thread(struct sti_thread *thread)
{
    end_ownerless();
    while (thread->retired != NULL) {
        struct sti_heap *heap = thread->retired;
        thread->retired = heap->next;
        put_ownerless(heap);
    }
    thread->retired_next = NULL;
    thread->retired_count = 0;
}
