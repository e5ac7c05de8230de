/* SPDX-License-Identifier: MIT
 *
 * Giving blocks back, and wiping them; see free.h. Any thread. */
#include "free.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "checked.h"
#include "retained.h"

_Atomic(sti_free_fn *) sti_free_function = STI_BACKEND_FREE;

/* Who changes it; who calls it takes no lock. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static unsigned followers; /* with the lock */
static bool has_followers; /* now, or had some before; likewise */

static void free_change(sti_free_fn *function)
{
    if (atomic_load_explicit(&sti_free_function, memory_order_relaxed) != sti_free_watched)
        atomic_store_explicit(&sti_free_function, function, memory_order_release);
}

void sti_free_by(sti_free_fn *function)
{
    if (atomic_load_explicit(&sti_free_function, memory_order_relaxed) == sti_free_watched)
        return;
    sti_real_mutex_lock(&changing);
    free_change(function);
    sti_real_mutex_unlock(&changing);
}

/* With the lock. */
static void set_followers(unsigned count, sti_free_fn *function)
{
    followers = count;
    has_followers |= count > 0;
    atomic_store_explicit(&sti_sampling_follows, count > 0, memory_order_release);
    free_change(count > 0 ? function : STI_BACKEND_FREE);
}

void sti_free_follow(sti_free_fn *function, bool more)
{
    sti_real_mutex_lock(&changing);
    set_followers(more ? followers + 1 : followers - 1, function);
    sti_real_mutex_unlock(&changing);
}

STI_FORK_HANDLER bool sti_free_follow_none(void)
{
    bool had_some = has_followers;
    if (had_some) {
        set_followers(0, STI_BACKEND_FREE);
        has_followers = false;
    }
    return had_some;
}

STI_FORK_HANDLER void sti_free_in_child(void)
{
    if (sti_process_is_partial())
        atomic_store_explicit(&sti_free_function, sti_process_free_in_part, memory_order_relaxed);
}

static void free_watched(void *block)
{
    if (sti_retained_may_contain(block))
        sti_retained_forget(block);
    if (sti_wipe_is_due())
        sti_wipe_block(block);
    if (atomic_load_explicit(&sti_sampling_follows, memory_order_relaxed))
        sti_hooks.sampling.free(block);
    else
        sti_backend_free(block);
}

void sti_free_watched(void *block)
{
    if (block == NULL)
        return;
    if (sti_checked_is_on)
        sti_checked_free(block, __builtin_return_address(0));
    free_watched(block);
}

void sti_free_rolled_back(void *block)
{
    if (sti_sampling_may_follow(block))
        sti_hooks.sampling.end_rolled_back(block);
    if (sti_checked_is_on) {
        sti_checked_roll_back(block);
        free_watched(block);
    } else {
        sti_free(block);
    }
}

/* --- Wiping. Any thread.
 *
 * All orders are relaxed: a block of a task that is wiped is made after the task's thread has counted the task and
 * changed the function behind free, and who frees the block got it from there. */

#define DISCARDED_FROM ((size_t)256 << 10)

static atomic_uint wiped_tasks; /* that run now */

/* The system zeroes whole pages more cheaply, those that were never written to above all. */
static bool pages_discard(uintptr_t begin, uintptr_t end)
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
    if (size < DISCARDED_FROM || !pages_discard(first, last)) {
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

void sti_wipe_begin(void)
{
    atomic_fetch_add_explicit(&wiped_tasks, 1, memory_order_relaxed);
    sti_free_by(sti_free_watched);
}

void sti_wipe_end(void)
{
    atomic_fetch_sub_explicit(&wiped_tasks, 1, memory_order_relaxed);
}
