/* SPDX-License-Identifier: MIT
 *
 * What is kept; see kept.h. */
#include "kept.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "allocate.h"
#include "heap.h"
#include "process.h"
#include "roots.h"
#include "thread.h"

/* --- Watched blocks --- */

#define LISTS ((size_t)1 << 12)

_Atomic uint8_t sti_kept_marks[STI_KEPT_MARKS];

static struct watched {
    uintptr_t block;
    struct sti_heap *set;
    size_t index; /* in it */
    struct watched *next;
} *lists[LISTS];

static atomic_bool locked;

static void lock(void)
{
    while (atomic_exchange_explicit(&locked, true, memory_order_acquire))
        sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&locked, false, memory_order_release);
}

static struct watched **list_of(uintptr_t block)
{
    return &lists[block >> 4 & (LISTS - 1)];
}

/* Once it has come to the most that it can count, a mark stays. */
static void count_mark(uintptr_t block, int by)
{
    _Atomic uint8_t *mark = &sti_kept_marks[block >> 4 & (STI_KEPT_MARKS - 1)];
    uint8_t count = atomic_load_explicit(mark, memory_order_relaxed);
    if (count != UINT8_MAX)
        atomic_store_explicit(mark, (uint8_t)(count + by), memory_order_relaxed);
}

/* With the lock. Returns the entry, taken out; NULL: it is not watched. */
static struct watched *take_out(uintptr_t block)
{
    struct watched **link = list_of(block);
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    struct watched *entry = *link;
    if (entry == NULL)
        return NULL;
    *link = entry->next;
    count_mark(block, -1);
    return entry;
}

void sti_kept_forget(const void *block)
{
    lock();
    struct watched *entry = take_out((uintptr_t)block);
    if (entry != NULL)
        atomic_store_explicit(&entry->set->singles[entry->index].block, NULL, memory_order_relaxed);
    unlock();
    if (entry != NULL)
        sti_process_free(entry);
}

/* What cannot be watched, for want of memory, stays allocated for good. */
static void watch(struct sti_heap *set)
{
    sti_free_by(sti_free_watched);
    for (size_t i = 0; i < set->count; i++) {
        uintptr_t block = (uintptr_t)sti_single_block(&set->singles[i]);
        if (block == 0)
            continue;
        struct watched *entry = sti_process_malloc(sizeof *entry);
        if (entry == NULL) {
            atomic_store_explicit(&set->singles[i].block, NULL, memory_order_relaxed);
            continue;
        }
        lock();
        *entry = (struct watched){ .block = block, .set = set, .index = i, .next = *list_of(block) };
        *list_of(block) = entry;
        count_mark(block, 1);
        unlock();
    }
}

static void stop_watching(struct sti_heap *set)
{
    for (size_t i = 0; i < set->count; i++) {
        lock();
        uintptr_t block = (uintptr_t)sti_single_block(&set->singles[i]);
        struct watched *entry = block != 0 ? take_out(block) : NULL;
        unlock();
        sti_process_free(entry);
    }
}

/* --- What threads that have ended have left --- */

static _Atomic(struct sti_heap *) ownerless;

static void put_ownerless(struct sti_heap *heap)
{
    heap->next = atomic_load_explicit(&ownerless, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&ownerless, &heap->next, heap, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/* Its last destructors may still use what was kept for it. */
static bool is_gone(int thread)
{
    int saved_errno = errno;
    bool gone = tgkill(getpid(), thread, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

static struct sti_heap *with_ownerless(struct sti_heap *list)
{
    if (atomic_load_explicit(&ownerless, memory_order_relaxed) == NULL)
        return list;
    struct sti_heap *heap = atomic_exchange_explicit(&ownerless, NULL, memory_order_acquire);
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        if (is_gone(heap->owner)) {
            heap->next = list;
            list = heap;
        } else {
            put_ownerless(heap);
        }
        heap = next;
    }
    return list;
}

void sti_kept_end_thread(struct sti_thread *thread)
{
    while (thread->kept != NULL) {
        struct sti_heap *heap = thread->kept;
        thread->kept = heap->next;
        heap->is_ownerless = true;
        heap->owner = thread->id;
        put_ownerless(heap);
    }
}

/* --- The look at a rollback --- */

static struct sti_heap **end_of(struct sti_heap **list)
{
    while (*list != NULL)
        list = &(*list)->next;
    return list;
}

/* What one rollback keeps lies together on the lists. One that is pinned keeps all of it. */
static void pin_groups(struct sti_heap *list)
{
    while (list != NULL) {
        bool pinned = false;
        struct sti_heap *end = list;
        for (; end != NULL && end->group == list->group; end = end->next)
            pinned = pinned || end->pinned;
        for (; list != end; list = list->next)
            list->pinned = pinned;
    }
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

size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task)
{
    static _Atomic uint64_t groups;
    uint64_t group = 1 + atomic_fetch_add_explicit(&groups, 1, memory_order_relaxed);
    for (struct sti_heap *heap = *list; heap != NULL; heap = heap->next)
        heap->group = group;
    struct sti_heap *before = with_ownerless(thread->kept);
    *end_of(list) = before;
    sti_roots_pin(*list, task);
    pin_groups(*list);
    size_t kept = 0;
    struct sti_heap *heap = *list;
    for (; heap != before; heap = heap->next) {
        if (!heap->pinned)
            continue;
        kept += sti_heap_bytes(heap);
        if (heap->backend == NULL)
            watch(heap);
    }
    for (; heap != NULL; heap = heap->next) {
        if (!heap->pinned && heap->backend == NULL)
            stop_watching(heap);
    }
    thread->kept = split_pinned(list);
    return kept;
}
