/* SPDX-License-Identifier: MIT
 *
 * The set of orphan pages; see orphans.h. Any thread, one at a time. An open-addressed table whose memory comes from the
 * system: what an ending thread allocated for it would be an orphan itself. */
#include "orphans.h"

#include <pthread.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 1024
#define VACATED ((uintptr_t)1) /* no page begins there */

atomic_size_t sti_orphans_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t *pages; /* 0: free */
static size_t capacity;  /* a power of two */
static size_t taken;     /* not free */
static bool incomplete;  /* every page may be an orphan */

static uintptr_t *place_of(uintptr_t *table, size_t size, uintptr_t page)
{
    size_t at = (page >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (size - 1);
    while (table[at] != 0 && table[at] != page)
        at = (at + 1) & (size - 1);
    return &table[at];
}

static bool grow(void)
{
    size_t larger = capacity == 0 ? FIRST_CAPACITY : capacity * 2;
    uintptr_t *table = mmap(NULL, larger * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return false;
    taken = 0;
    for (size_t i = 0; i < capacity; i++) {
        if (pages[i] > VACATED) {
            *place_of(table, larger, pages[i]) = pages[i];
            taken++;
        }
    }
    if (pages != NULL)
        munmap(pages, capacity * sizeof *pages);
    pages = table;
    capacity = larger;
    return true;
}

static void assume_all(void)
{
    incomplete = true;
    atomic_store_explicit(&sti_orphans_count, SIZE_MAX / 2, memory_order_relaxed);
}

static void note(uintptr_t begin, uintptr_t end, size_t block_size, void *unused)
{
    (void)end;
    (void)block_size;
    (void)unused;
    if (taken * 2 >= capacity && !grow()) {
        assume_all();
        return;
    }
    uintptr_t *place = place_of(pages, capacity, begin);
    if (*place == begin)
        return;
    *place = begin;
    taken++;
    atomic_fetch_add_explicit(&sti_orphans_count, 1, memory_order_relaxed);
}

static void forget(uintptr_t begin, uintptr_t end, size_t block_size, void *unused)
{
    (void)end;
    (void)block_size;
    (void)unused;
    uintptr_t *place = place_of(pages, capacity, begin);
    if (*place != begin)
        return;
    *place = VACATED;
    atomic_fetch_sub_explicit(&sti_orphans_count, 1, memory_order_relaxed);
}

/* The child of a fork finds the set whole and the lock free. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

bool sti_orphans_contain(uintptr_t page)
{
    pthread_mutex_lock(&lock);
    bool contained = incomplete || (capacity > 0 && *place_of(pages, capacity, page) == page);
    pthread_mutex_unlock(&lock);
    return contained;
}

void sti_orphans_note(sti_backend_heap *heap)
{
    pthread_mutex_lock(&lock);
    sti_backend_heap_areas(heap, note, NULL);
    pthread_mutex_unlock(&lock);
}

void sti_orphans_forget(sti_backend_heap *heap)
{
    pthread_mutex_lock(&lock);
    if (capacity > 0)
        sti_backend_heap_areas(heap, forget, NULL);
    pthread_mutex_unlock(&lock);
}

void sti_orphans_assume_all(void)
{
    pthread_mutex_lock(&lock);
    assume_all();
    pthread_mutex_unlock(&lock);
}
