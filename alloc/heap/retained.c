/* SPDX-License-Identifier: MIT
 *
 * The blocks that were kept and have not been freed; see retained.h. Any thread. */
#include "retained.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/memory.h>

#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "free.h"

#define LISTS ((size_t)1 << 12)
#define MAX_WATCHED ((size_t)1 << 14) /* what is kept beyond that counts for good */

STI_TABLE _Atomic uint8_t sti_retained_marks[STI_RETAINED_MARKS];

struct watched {
    uintptr_t block;
    size_t size;
    struct watched *next;
};
STI_TABLE struct watched *sti_retained_lists[LISTS];
static size_t watched_count;

static _Atomic size_t retained_bytes;
static _Atomic uint64_t retained_heaps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sti_kept_begin(size_t bytes)
{
    atomic_fetch_add_explicit(&retained_bytes, bytes, memory_order_relaxed);
    sti_free_by(sti_free_watched);
}

void sti_kept_count_heap(void)
{
    atomic_fetch_add_explicit(&retained_heaps, 1, memory_order_relaxed);
}

size_t sti_retained_bytes(void)
{
    return atomic_load_explicit(&retained_bytes, memory_order_relaxed);
}

uint64_t sti_retained_heaps(void)
{
    return atomic_load_explicit(&retained_heaps, memory_order_relaxed);
}

size_t stint_roots_kept_bytes(void)
{
    return sti_retained_bytes();
}

static struct watched **watched_list(uintptr_t block)
{
    return &sti_retained_lists[block >> 4 & (LISTS - 1)];
}

/* Once it has come to the most that it can count, a mark stays. */
static void count_mark(uintptr_t block, int by)
{
    _Atomic uint8_t *mark = &sti_retained_marks[block >> 4 & (STI_RETAINED_MARKS - 1)];
    uint8_t count = atomic_load_explicit(mark, memory_order_relaxed);
    if (count != UINT8_MAX)
        atomic_store_explicit(mark, (uint8_t)(count + by), memory_order_relaxed);
}

/* With the lock. Returns the entry, taken out; NULL: it is not watched. */
static struct watched *watched_take_out(uintptr_t block)
{
    struct watched **link = watched_list(block);
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    struct watched *entry = *link;
    if (entry == NULL)
        return NULL;
    *link = entry->next;
    watched_count--;
    count_mark(block, -1);
    return entry;
}

void sti_retained_forget(const void *block)
{
    if (sti_process_is_partial()) /* the lock may be held for ever */
        return;
    sti_real_mutex_lock(&lock);
    struct watched *entry = watched_take_out((uintptr_t)block);
    sti_real_mutex_unlock(&lock);
    if (entry == NULL)
        return;
    atomic_fetch_sub_explicit(&retained_bytes, entry->size, memory_order_relaxed);
    sti_process_free(entry);
}

void sti_kept_watch(uintptr_t block, size_t size)
{
    struct watched *entry = sti_process_lasting_malloc(sizeof *entry);
    if (entry == NULL)
        return;
    sti_real_mutex_lock(&lock);
    bool has_room = watched_count < MAX_WATCHED;
    if (has_room) {
        *entry = (struct watched){ .block = block, .size = size, .next = *watched_list(block) };
        *watched_list(block) = entry;
        watched_count++;
        count_mark(block, 1);
    }
    sti_real_mutex_unlock(&lock);
    if (!has_room)
        sti_process_free(entry);
}
