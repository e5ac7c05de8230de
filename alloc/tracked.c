/* SPDX-License-Identifier: MIT
 *
 * The set of sampled blocks; see tracked.h. Any thread. Nothing is called with a lock held. */
#include "tracked.h"

#include <sched.h>

#define LOCKS 64
#define SPINS 100

_Atomic uint8_t sti_tracked_marks[STI_TRACKED_MARKS];

static struct sti_tracked *lists[STI_TRACKED_LISTS];

static struct spin_lock {
    _Alignas(64) atomic_bool taken;
} locks[LOCKS];

static size_t list_of(uintptr_t block)
{
    return block >> 10 & (STI_TRACKED_LISTS - 1);
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

/* With the list's lock: the link to the block's entry, or to the end of the list. */
static struct sti_tracked **link_to(size_t list, uintptr_t block)
{
    struct sti_tracked **link = &lists[list];
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    return link;
}

/* With the list's lock: after a change. */
static void set_mark(size_t list, uintptr_t block)
{
    size_t mark = sti_tracked_mark(block);
    const struct sti_tracked *entry = lists[list];
    while (entry != NULL && sti_tracked_mark(entry->block) != mark)
        entry = entry->next;
    atomic_store_explicit(&sti_tracked_marks[mark], entry != NULL, memory_order_relaxed);
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

struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, stint_memprof_end end)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = link_to(list, block);
    bool found = *link != NULL && (*link)->heap == heap;
    struct sti_tracked *entry = found ? unlink_entry(list, link, end) : NULL;
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

bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    const struct sti_tracked *entry = *link_to(list, block);
    bool found = entry != NULL && entry->heap == heap;
    unlock(taken);
    return found;
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
        for (size_t list = first; list < STI_TRACKED_LISTS; list += LOCKS)
            chain = take_all_of(list, end, chain);
        unlock(taken);
    }
    return chain;
}

void sti_tracked_forget_all(void)
{
    for (size_t i = 0; i < LOCKS; i++)
        atomic_store_explicit(&locks[i].taken, false, memory_order_relaxed);
    for (size_t list = 0; list < STI_TRACKED_LISTS; list++) {
        if (lists[list] != NULL)
            lists[list] = NULL;
    }
    for (size_t mark = 0; mark < STI_TRACKED_MARKS; mark++) {
        if (atomic_load_explicit(&sti_tracked_marks[mark], memory_order_relaxed) != 0)
            atomic_store_explicit(&sti_tracked_marks[mark], 0, memory_order_relaxed);
    }
}
