/* SPDX-License-Identifier: MIT
 *
 * Wiping; see wipe.h. Any thread.
 *
 * All orders are relaxed: a block of a task that is wiped is made after the task's thread has counted the task and changed
 * the function behind free, and who frees the block got it from there. */
#include "wipe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocate.h"

#define DISCARDED_FROM ((size_t)256 << 10)

static atomic_uint wiped_tasks; /* that run now */

/* The system zeroes whole pages more cheaply, those that were never written to above all. */
static bool discard(uintptr_t begin, uintptr_t end)
{
    int error = errno;
    bool discarded = madvise((void *)begin, end - begin, MADV_DONTNEED) == 0;
    errno = error;
    return discarded;
}

void sti_wipe_block(void *block)
{
    size_t size = sti_backend_usable_size(block);
    uintptr_t begin = (uintptr_t)block;
    uintptr_t end = begin + size;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (begin + page - 1) & ~(page - 1);
    uintptr_t last = end & ~(page - 1);
    if (size < DISCARDED_FROM || !discard(first, last)) {
        explicit_bzero(block, size);
        return;
    }
    explicit_bzero(block, first - begin);
    explicit_bzero((void *)last, end - last);
}

bool sti_wipe_is_due(void)
{
    return atomic_load_explicit(&wiped_tasks, memory_order_relaxed) > 0;
}

void *sti_wipe_reallocate(void *block, size_t size, const void *caller)
{
    void *moved = sti_allocate(size, caller);
    if (moved == NULL)
        return NULL;
    size_t before = sti_backend_usable_size(block);
    memcpy(moved, block, before < size ? before : size);
    sti_free_watched(block);
    return moved;
}

void sti_wipe_begin(void)
{
    atomic_fetch_add_explicit(&wiped_tasks, 1, memory_order_relaxed);
    sti_free_by(sti_free_watched);
}

void sti_wipe_end(void)
{
    atomic_fetch_sub_explicit(&wiped_tasks, 1, memory_order_relaxed);
}
