/* SPDX-License-Identifier: MIT
 *
 * The set of sampled blocks; see tracked.h. Any thread.
 *
 * The arrays come from the system, since a root may not point into a task's heap (roots.h) and most of their pages are
 * never touched. Nothing is called with a lock held. */
#include "tracked.h"

#include <sched.h>
#include <sys/mman.h>

#define LOCKS 64
#define SPINS 100

_Atomic(_Atomic uint64_t *) sti_tracked_bits;

static struct sti_tracked **lists;

static struct spin_lock {
    _Alignas(64) atomic_bool taken;
} locks[LOCKS];

static struct spin_lock *lock(size_t word)
{
    struct spin_lock *taken = &locks[word % LOCKS];
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

static void *zeroed_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages != MAP_FAILED ? pages : NULL;
}

bool sti_tracked_prepare(void)
{
    if (lists == NULL)
        lists = zeroed_pages(STI_TRACKED_WORDS * sizeof *lists);
    if (lists == NULL)
        return false;
    _Atomic uint64_t *bits = atomic_load_explicit(&sti_tracked_bits, memory_order_relaxed);
    if (bits == NULL) {
        bits = zeroed_pages(STI_TRACKED_WORDS * sizeof *bits);
        atomic_store_explicit(&sti_tracked_bits, bits, memory_order_relaxed);
    }
    return bits != NULL;
}

/* With the word's lock. */
static void set_bits(size_t word)
{
    _Atomic uint64_t *bits = atomic_load_explicit(&sti_tracked_bits, memory_order_relaxed);
    uint64_t set = 0;
    for (const struct sti_tracked *entry = lists[word]; entry != NULL; entry = entry->next)
        set |= sti_tracked_bit(entry->block);
    atomic_store_explicit(&bits[word], set, memory_order_relaxed);
}

void sti_tracked_add(struct sti_tracked *entry)
{
    size_t word = sti_tracked_word(entry->block);
    struct spin_lock *taken = lock(word);
    entry->next = lists[word];
    lists[word] = entry;
    set_bits(word);
    unlock(taken);
}

/* With the word's lock: the link to the block's entry, or to the end of the list. */
static struct sti_tracked **link_to(size_t word, uintptr_t block)
{
    struct sti_tracked **link = &lists[word];
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    return link;
}

static struct sti_tracked *unlink_entry(size_t word, struct sti_tracked **link, stint_memprof_end end)
{
    struct sti_tracked *entry = *link;
    *link = entry->next;
    entry->end = end;
    entry->gone = true;
    set_bits(word);
    return entry->promoting ? NULL : entry;
}

struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end)
{
    size_t word = sti_tracked_word(block);
    struct spin_lock *taken = lock(word);
    struct sti_tracked **link = link_to(word, block);
    struct sti_tracked *entry = *link != NULL ? unlink_entry(word, link, end) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, stint_memprof_end end)
{
    size_t word = sti_tracked_word(block);
    struct spin_lock *taken = lock(word);
    struct sti_tracked **link = link_to(word, block);
    bool found = *link != NULL && (*link)->heap == heap;
    struct sti_tracked *entry = found ? unlink_entry(word, link, end) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, const sti_backend_heap *heap)
{
    size_t word = sti_tracked_word(block);
    struct spin_lock *taken = lock(word);
    struct sti_tracked *entry = *link_to(word, block);
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
    size_t word = sti_tracked_word(entry->block);
    struct spin_lock *taken = lock(word);
    entry->promoting = false;
    entry->metadata = metadata;
    if (metadata == NULL && !entry->gone)
        unlink_entry(word, link_to(word, entry->block), STINT_MEMPROF_FREED);
    bool gone = entry->gone;
    unlock(taken);
    return gone;
}

bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap)
{
    size_t word = sti_tracked_word(block);
    struct spin_lock *taken = lock(word);
    const struct sti_tracked *entry = *link_to(word, block);
    bool found = entry != NULL && entry->heap == heap;
    unlock(taken);
    return found;
}

struct sti_tracked *sti_tracked_take_any(size_t word, stint_memprof_end end)
{
    struct spin_lock *taken = lock(word);
    struct sti_tracked **link = &lists[word];
    while (*link != NULL && (*link)->promoting)
        link = &(*link)->next;
    struct sti_tracked *entry = *link != NULL ? unlink_entry(word, link, end) : NULL;
    unlock(taken);
    return entry;
}

void sti_tracked_forget_all(void)
{
    _Atomic uint64_t *bits = atomic_load_explicit(&sti_tracked_bits, memory_order_relaxed);
    for (size_t i = 0; i < LOCKS; i++)
        atomic_store_explicit(&locks[i].taken, false, memory_order_relaxed);
    for (size_t word = 0; bits != NULL && word < STI_TRACKED_WORDS; word++) {
        if (lists[word] == NULL)
            continue;
        lists[word] = NULL;
        atomic_store_explicit(&bits[word], 0, memory_order_relaxed);
    }
}
