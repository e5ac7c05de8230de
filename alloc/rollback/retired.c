/* SPDX-License-Identifier: MIT
 *
 * Retired heaps: of tasks that ended Ok and left live blocks there; see retired.h. Thread of the heaps, but for what is
 * the process's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "free.h"
#include "heap.h"
#include "retired.h"

#define KEPT_EMPTY 8 /* so many are not ended though they are empty, until the thread gives back */
#define LOOKED_AT 4
#define UNTOLD_NS UINT64_C(10000000000) /* no free takes as long */

/* --- Is nobody there any more? --- */

/* Whoever frees a block of it says so. A heap that was taken before that was asked for may have blocks that somebody
 * was about to free then. */
static bool is_told(const struct sti_heap *heap)
{
    uint64_t since = sti_freeing_told_since();
    return heap->told || (since != 0 && sti_clock_now() - since >= UNTOLD_NS);
}

/* All pages that mimalloc had given up have gone, and so has everybody who worked there; own is how many others it
 * has. */
static bool is_deserted(struct sti_heap *heap, size_t own)
{
    if (!heap->deserted) {
        if (!is_told(heap) || sti_heap_pages(heap).now != own)
            return false;
        heap->wait = sti_freeing_wait();
        heap->deserted = true;
    }
    if (!sti_freeing_is_over(&heap->wait))
        return false;
    heap->given_up_before = sti_heap_pages(heap).given_up;
    return true;
}

static void note_given_up(struct sti_heap *heap, bool given_up)
{
    heap->given_up = given_up;
    heap->deserted = false;
    if (given_up)
        sti_freeing_tell();
}

/* mimalloc gives up all pages of a thread that ends, before or after what ends here with it. */
static bool is_free(struct sti_heap *heap)
{
    struct sti_backend_size own = sti_backend_theap_size(sti_backend_heap_theap(heap->backend));
    if (own.blocks > 0)
        return false;
    if (!heap->given_up && sti_heap_has_given_up(heap))
        note_given_up(heap, true);
    return !heap->given_up || is_deserted(heap, own.areas);
}

/* --- The thread's list: a circle in effect, looked at a few at a time --- */

static void take_off(struct sti_thread *thread, struct sti_heap **link)
{
    *link = (*link)->next;
    thread->retired_count--;
}

/* Of the kind, or of any where that is NULL. */
static struct sti_heap *take_retired(struct sti_thread *thread, const bool *is_nursery)
{
    if (thread->retired_next == NULL || *thread->retired_next == NULL)
        thread->retired_next = &thread->retired;
    struct sti_heap **link = thread->retired_next;
    struct sti_heap *found = NULL;
    for (unsigned i = 0; i < LOOKED_AT && found == NULL && *link != NULL; i++) {
        sti_backend_theap_collect(sti_backend_heap_theap((*link)->backend), false);
        if ((is_nursery == NULL || (*link)->is_nursery == *is_nursery) && is_free(*link)) {
            found = *link;
            take_off(thread, link);
        } else {
            link = &(*link)->next;
        }
    }
    thread->retired_next = link;
    return found;
}

struct sti_heap *sti_retired_take(struct sti_thread *thread, bool is_nursery)
{
    return take_retired(thread, &is_nursery);
}

void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap)
{
    note_given_up(heap, sti_heap_has_given_up(heap));
    heap->next = thread->retired;
    thread->retired = heap;
    if (++thread->retired_count <= KEPT_EMPTY)
        return;
    struct sti_heap *empty = take_retired(thread, NULL);
    if (empty != NULL)
        sti_heap_destroy(empty);
}

/* --- The process's list: of threads that have ended --- */

/* Whoever looks takes some from its front, and puts those that stay at its end: so it costs the same however many there
 * are, and all have their turn. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sti_heap *ownerless;
static struct sti_heap *last_ownerless;

#define LOOKED_AT_IN_GIVING_BACK 1024 /* half a millisecond */

static void put_ownerless(struct sti_heap *heap)
{
    heap->next = NULL;
    sti_plain_mutex_lock(&lock);
    *(ownerless == NULL ? &ownerless : &last_ownerless->next) = heap;
    last_ownerless = heap;
    sti_plain_mutex_unlock(&lock);
}

static struct sti_heap *take_ownerless(void)
{
    sti_plain_mutex_lock(&lock);
    struct sti_heap *heap = ownerless;
    ownerless = heap != NULL ? heap->next : NULL;
    sti_plain_mutex_unlock(&lock);
    return heap;
}

/* Of so many at most, each once. mimalloc has given up all of their pages with their threads. */
static void end_ownerless(size_t max)
{
    struct sti_heap *stay = NULL;
    struct sti_heap *heap;
    while (max-- > 0 && (heap = take_ownerless()) != NULL) {
        if (is_deserted(heap, 0)) {
            sti_heap_destroy(heap);
        } else {
            heap->next = stay;
            stay = heap;
        }
    }
    while ((heap = stay) != NULL) {
        stay = heap->next;
        put_ownerless(heap);
    }
}

/* --- What is given up --- */

/* To the process; what goes to the system goes at once for all (global.c). */
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
    end_ownerless(LOOKED_AT_IN_GIVING_BACK);
}

void sti_retired_end_thread(struct sti_thread *thread)
{
    /* Twice as many as come: there are never more for long than have live blocks. */
    end_ownerless(LOOKED_AT + 2 * (size_t)thread->retired_count);
    /* Out of memory: they are left as they are. */
    if (thread->retired != NULL && !sti_freeing_stay_to_end())
        thread->retired = NULL;
    for (struct sti_heap *heap = thread->retired; heap != NULL; heap = heap->next) {
        note_given_up(heap, true);
        sti_heap_pages(heap); /* the thread's part is counted in the heap from now on */
    }
}

void sti_retired_hand_over(struct sti_thread *thread)
{
    while (thread->retired != NULL) {
        struct sti_heap *heap = thread->retired;
        thread->retired = heap->next;
        put_ownerless(heap);
    }
    thread->retired_next = NULL;
    thread->retired_count = 0;
}
