/* SPDX-License-Identifier: MIT
 *
 * The set of the blocks that are followed; see followed.h. Any thread. Nothing is called with a lock held. */
#include "followed.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/base/sampling.h"

#define LOCKS 64
#define SPINS 100

static struct sti_tracked *lists[STI_SAMPLING_LISTS];

static struct spin_lock {
    _Alignas(64) atomic_bool taken;
} locks[LOCKS];

static size_t list_of(uintptr_t block)
{
    return block >> 10 & (STI_SAMPLING_LISTS - 1);
}

static struct spin_lock *lock(size_t list)
{
    struct spin_lock *taken = &locks[list % LOCKS];
    int spins = 0;
    while (atomic_exchange_explicit(&taken->taken, true, memory_order_acquire)) {
        if (++spins > SPINS)
            sched_yield();
    }
    return taken;
}

static void unlock(struct spin_lock *taken)
{
    atomic_store_explicit(&taken->taken, false, memory_order_release);
}

/* With the list's lock: the link to the block's entry of the profile's, or of a rate's, or to the end of the list. */
static struct sti_tracked **find(size_t list, uintptr_t block, bool is_rated)
{
    struct sti_tracked **link = &lists[list];
    while (*link != NULL && ((*link)->block != block || ((*link)->rate != NULL) != is_rated))
        link = &(*link)->next;
    return link;
}

static struct sti_tracked **link_to(size_t list, uintptr_t block)
{
    return find(list, block, false);
}

/* The same if it is one of those; otherwise NULL. */
static struct sti_tracked **find_of(size_t list, uintptr_t block, const sti_backend_heap *heap,
                                    const struct sti_rate *rate)
{
    struct sti_tracked **link = find(list, block, rate != NULL);
    return *link != NULL && (*link)->heap == heap && (*link)->rate == rate ? link : NULL;
}

/* With the list's lock: after a change. */
static void set_mark(size_t list, uintptr_t block)
{
    size_t mark = sti_sampling_mark(block);
    const struct sti_tracked *entry = lists[list];
    while (entry != NULL && sti_sampling_mark(entry->block) != mark)
        entry = entry->next;
    atomic_store_explicit(&sti_sampling_marks[mark], entry != NULL, memory_order_relaxed);
}

static struct sti_tracked *unlink_entry(size_t list, struct sti_tracked **link, stint_memprof_end end)
{
    struct sti_tracked *entry = *link;
    *link = entry->next;
    entry->end = end;
    entry->gone = true;
    set_mark(list, entry->block);
    return entry->promoting ? NULL : entry;
}

struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = link_to(list, block);
    struct sti_tracked *entry = *link != NULL ? unlink_entry(list, link, end) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, const struct sti_rate *rate,
                                        stint_memprof_end end)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = find_of(list, block, heap, rate);
    struct sti_tracked *entry = link != NULL ? unlink_entry(list, link, end) : NULL;
    unlock(taken);
    return entry;
}

uint64_t sti_tracked_number(uintptr_t block)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    const struct sti_tracked *entry = *find(list, block, true);
    uint64_t number = entry != NULL ? entry->number : 0;
    unlock(taken);
    return number;
}

struct sti_tracked *sti_tracked_take_rated(uintptr_t block, uint64_t number)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = find(list, block, true);
    bool found = *link != NULL && (number == STI_TRACKED_ANY || (*link)->number == number);
    struct sti_tracked *entry = found ? unlink_entry(list, link, STINT_MEMPROF_FREED) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, const sti_backend_heap *heap)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked *entry = *link_to(list, block);
    if (entry != NULL && entry->heap == heap) {
        entry->heap = NULL;
        entry->promoting = true;
    } else {
        entry = NULL;
    }
    unlock(taken);
    return entry;
}

bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata)
{
    size_t list = list_of(entry->block);
    struct spin_lock *taken = lock(list);
    entry->promoting = false;
    entry->metadata = metadata;
    if (metadata == NULL && !entry->gone)
        unlink_entry(list, link_to(list, entry->block), STINT_MEMPROF_FREED);
    bool gone = entry->gone;
    unlock(taken);
    return gone;
}

bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap, const struct sti_rate *rate)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    bool found = find_of(list, block, heap, rate) != NULL;
    unlock(taken);
    return found;
}

void sti_tracked_show(uintptr_t block, const sti_backend_heap *heap, const struct sti_rate *rate,
                      sti_tracked_show_fn *show, void *arg)
{
    struct spin_lock *taken = lock(list_of(block));
    struct sti_tracked **link = find_of(list_of(block), block, heap, rate);
    if (link != NULL && (*link)->metadata != NULL)
        show(block, (*link)->metadata, arg);
    unlock(taken);
}

void sti_tracked_add(struct sti_tracked *entry)
{
    size_t list = list_of(entry->block);
    struct spin_lock *taken = lock(list);
    entry->gone = false;
    entry->next = lists[list];
    lists[list] = entry;
    set_mark(list, entry->block);
    unlock(taken);
}

/* Onto the chain. With the list's lock. */
static struct sti_tracked *take_all_of(size_t list, stint_memprof_end end, struct sti_tracked *chain)
{
    struct sti_tracked **link = &lists[list];
    while (*link != NULL) {
        if ((*link)->rate != NULL) {
            link = &(*link)->next;
            continue;
        }
        struct sti_tracked *entry = unlink_entry(list, link, end);
        if (entry == NULL)
            continue;
        entry->next = chain;
        chain = entry;
    }
    return chain;
}

struct sti_tracked *sti_tracked_take_all(stint_memprof_end end)
{
    struct sti_tracked *chain = NULL;
    for (size_t first = 0; first < LOCKS; first++) {
        struct spin_lock *taken = lock(first);
        for (size_t list = first; list < STI_SAMPLING_LISTS; list += LOCKS)
            chain = take_all_of(list, end, chain);
        unlock(taken);
    }
    return chain;
}

void sti_tracked_forget_all(void)
{
    for (size_t i = 0; i < LOCKS; i++)
        atomic_store_explicit(&locks[i].taken, false, memory_order_relaxed);
    for (size_t list = 0; list < STI_SAMPLING_LISTS; list++) {
        if (lists[list] != NULL)
            lists[list] = NULL;
    }
    for (size_t mark = 0; mark < STI_SAMPLING_MARKS; mark++) {
        if (atomic_load_explicit(&sti_sampling_marks[mark], memory_order_relaxed) != 0)
            atomic_store_explicit(&sti_sampling_marks[mark], 0, memory_order_relaxed);
    }
}
