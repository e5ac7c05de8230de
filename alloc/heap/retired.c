/* SPDX-License-Identifier: MIT
 *
 * Retired heaps: of tasks that ended Ok and left live blocks there; see retired.h. Thread of the heaps, but for what is
 * the process's. */
#include "retired.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#include "alloc/platform/machine.h"
#include "alloc/platform/module.h"
#include "alloc/platform/thread.h"
#include "heap.h"

#define KEPT_EMPTY 8 /* so many are not ended though they are empty, until the thread gives back */
#define LOOKED_AT 4

/* --- The thread's list: a circle in effect, looked at a few at a time --- */

static bool retired_is_free(struct sti_heap *heap)
{
    sti_backend_theap_collect(sti_backend_heap_theap(heap->backend), false);
    return sti_heap_size(heap).blocks == 0 && sti_heap_renew(heap);
}

static void retired_take_off(struct sti_thread *thread, struct sti_heap **link)
{
    *link = (*link)->next;
    thread->retired_count--;
}

static struct sti_heap *retired_take(struct sti_thread *thread)
{
    if (thread->retired_next == NULL || *thread->retired_next == NULL)
        thread->retired_next = &thread->retired;
    struct sti_heap **link = thread->retired_next;
    struct sti_heap *found = NULL;
    for (unsigned i = 0; i < LOOKED_AT && found == NULL && *link != NULL; i++) {
        if (retired_is_free(*link)) {
            found = *link;
            retired_take_off(thread, link);
        } else {
            link = &(*link)->next;
        }
    }
    thread->retired_next = link;
    return found;
}

/* --- The process's list: heaps that are no thread's --- */

/* Whoever looks takes some from the front, and puts those that stay at the end: so it costs the same however many there
 * are, and all have their turn. But none of them is ever destroyed, so there must not be many more than those with live
 * blocks, each of which holds 100 KiB and more. So when there are twice as many as had some the last time, all are
 * looked at, and the empty ones come to the front. */
#define FEW 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct abandoned {
    struct sti_heap *first;
    struct sti_heap *last;
    size_t count;
    size_t sort_at; /* when there are so many */
} abandoned = { .sort_at = FEW };

/* With the lock. */
static void abandoned_put_last(struct abandoned *list, struct sti_heap *heap)
{
    heap->next = NULL;
    *(list->first == NULL ? &list->first : &list->last->next) = heap;
    list->last = heap;
    list->count++;
}

void sti_retired_leave(struct sti_heap *heap)
{
    heap->lasts = true;
    sti_real_mutex_lock(&lock);
    abandoned_put_last(&abandoned, heap);
    sti_real_mutex_unlock(&lock);
}

static struct sti_heap *abandoned_take_first(void)
{
    sti_real_mutex_lock(&lock);
    struct sti_heap *heap = abandoned.first;
    if (heap != NULL) {
        abandoned.first = heap->next;
        abandoned.count--;
    }
    sti_real_mutex_unlock(&lock);
    return heap;
}

/* With the lock: whoever wants one waits, as he would make another one otherwise. */
static void retired_sort(void)
{
    struct abandoned sorted = { .first = NULL };
    struct abandoned used = { .first = NULL };
    for (struct sti_heap *heap = abandoned.first, *next; heap != NULL; heap = next) {
        next = heap->next;
        abandoned_put_last(sti_heap_is_unused(heap) ? &sorted : &used, heap);
    }
    sorted.sort_at = 2 * used.count + FEW;
    for (struct sti_heap *heap = used.first, *next; heap != NULL; heap = next) {
        next = heap->next;
        abandoned_put_last(&sorted, heap);
    }
    abandoned = sorted;
}

static bool sort_if_many(void)
{
    sti_real_mutex_lock(&lock);
    bool many = abandoned.count >= abandoned.sort_at;
    if (many)
        retired_sort();
    sti_real_mutex_unlock(&lock);
    return many;
}

static struct sti_heap *take_some(void)
{
    struct sti_heap *heap = NULL;
    for (unsigned i = 0; i < LOOKED_AT; i++) {
        heap = abandoned_take_first();
        if (heap == NULL || sti_heap_adopt(heap))
            return heap;
        sti_retired_leave(heap);
    }
    return NULL;
}

static struct sti_heap *take_abandoned(void)
{
    struct sti_heap *heap = take_some();
    return heap == NULL && sort_if_many() ? take_some() : heap;
}

/* --- In and out --- */

#define MIN_TAIL (4 * sti_page_size())

/* Behind the last block that was ever made in a page nothing has been written to, but the system may have given all of
 * it as one huge page. It gives zeros again, which is what mimalloc takes it for. */
static void give_tail_back(const struct sti_backend_area *area, void *unused)
{
    uintptr_t begin = (area->end + sti_page_size() - 1) & ~(sti_page_size() - 1);
    uintptr_t end = area->reach & ~(sti_page_size() - 1);
    (void)unused;
    if (begin + MIN_TAIL <= end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* Of those that wait for long: a thread with few has them empty soon. mimalloc itself keeps an empty page of each size
 * for the heap's next block, which may never come. */
static void give_rest_back(const struct sti_heap *heap)
{
    int saved_errno = errno;
    sti_backend_theap *part = sti_backend_heap_theap(heap->backend);
    sti_backend_theap_collect(part, true);
    sti_backend_theap_areas(part, give_tail_back, NULL);
    errno = saved_errno;
}

struct sti_heap *sti_retired_take(struct sti_thread *thread)
{
    struct sti_heap *heap = retired_take(thread);
    return heap != NULL ? heap : take_abandoned();
}

void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap)
{
    heap->next = thread->retired;
    thread->retired = heap;
    if (++thread->retired_count <= KEPT_EMPTY)
        return;
    give_rest_back(heap);
    struct sti_heap *empty = retired_take(thread);
    if (empty != NULL)
        sti_heap_end(empty);
}

static void end_empty(struct sti_thread *thread, bool (*is_empty)(struct sti_heap *heap))
{
    struct sti_heap **link = &thread->retired;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        if (is_empty(heap)) {
            retired_take_off(thread, link);
            sti_heap_end(heap);
        } else {
            link = &heap->next;
        }
    }
    thread->retired_next = NULL;
}

/* What goes to the system goes at once for all (global.c). */
void sti_retired_give_back(struct sti_thread *thread)
{
    end_empty(thread, retired_is_free);
}

/* mimalloc has ended the thread's parts already, most often: it would make another one of a heap that is asked. */
static bool is_empty_at_end(struct sti_heap *heap)
{
    sti_heap_complete_counts(heap);
    return !sti_heap_has_given_up(heap) && retired_is_free(heap);
}

void sti_retired_end_thread(struct sti_thread *thread)
{
    end_empty(thread, is_empty_at_end);
}

void sti_retired_hand_over(struct sti_thread *thread)
{
    while (thread->retired != NULL) {
        struct sti_heap *heap = thread->retired;
        thread->retired = heap->next;
        sti_retired_leave(heap);
    }
    thread->retired_next = NULL;
    thread->retired_count = 0;
}
