/* SPDX-License-Identifier: MIT
 *
 * The meter: what an allocation is charged. Calling thread only. */
#ifndef STI_ALLOC_METER_METER_H
#define STI_ALLOC_METER_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/thread.h"

/* --- The meter: an add, a compare and a branch on the allocation path, and the sample point behind it. Calling thread
 * only.
 *
 * What is charged. malloc(n): n rounded up to 16, at least 16. An aligned block: n plus the alignment, rounded. A
 * realloc is charged like malloc of the new size, unless the new size fits the block and fills at least half of it
 * (then the block stays as it is): nothing. What libc allocates for itself is charged too, and so is a block that the
 * system then has no memory for. A free gives nothing back. */

/* In place of a size: pages of the system's, which hold what they are charged. What malloc makes of such a size is the
 * same: nothing. */
#define STI_METER_PAGES SIZE_MAX

/* A sample point of an allocation of size bytes for this caller, to be charged so much. True: it may be made, and has
 * been charged. False: it may not, and errno is ENOMEM. Does not return when an interrupt is delivered by a jump. */
bool sti_meter_sample(struct sti_thread *thread, uint64_t charge, size_t size, const void *caller);

/* Does a block for this caller go to the process's heap, whatever it is? */
bool sti_meter_is_kept_block(const struct sti_thread *thread, const void *caller);

/* Where a block for this caller comes from. Asked after a sample point; on the fast path nothing is kept
 * (stint_keep_begin), and the caller alone decides. */
enum sti_source { STI_SOURCE_TASK, STI_SOURCE_LIBC, STI_SOURCE_PROCESS };

static inline enum sti_source sti_meter_source(const struct sti_thread *thread, const void *caller)
{
    if (sti_meter_is_kept_block(thread, caller))
        return STI_SOURCE_PROCESS;
    return sti_caller_is_libc(caller) ? STI_SOURCE_LIBC : STI_SOURCE_TASK;
}

/* The innermost scope's blocks come from this heap from now on; NULL: from the nursery, or wherever is decided when it
 * asks for one. */
void sti_meter_allocate_from(struct sti_thread *thread, const struct sti_heap *heap);

/* Give the innermost scope a heap of its own. False: out of memory. */
bool sti_meter_grow(struct sti_thread *thread);

/* A scope's meter begins and ends. Between the two, thread->scope is the scope. It leaves so many bytes to the one
 * around it, whole pages where it had a heap of its own. */
void sti_meter_begin(struct sti_thread *thread, const stint_budget *budget);
void sti_meter_end(struct sti_thread *thread, size_t left);

/* The very last sizes wrap to nothing; the backend refuses them. */
static inline uint64_t sti_meter_rounded(size_t size)
{
    return (size + (size == 0) + 15) & ~(uint64_t)15;
}

/* Charge unless this is a sample point. */
static inline bool sti_meter_charge_fast(struct sti_thread *thread, uint64_t charge)
{
    uint64_t after;
    if (__builtin_expect(__builtin_add_overflow(thread->used, charge, &after) || sti_is_beyond(after, &thread->limit),
                         0))
        return false;
    thread->used = after;
    return true;
}

/* The same of a small block, which the scope's heap is there for; a size of 0 is left to the other. */
static inline bool sti_meter_charge_small(struct sti_thread *thread, size_t size)
{
    uint64_t last = (size - 1) | 15; /* byte of the block, rounded */
    uint64_t after = thread->used + last + 1;
    if (__builtin_expect(last >= thread->small, 0) || __builtin_expect(sti_is_beyond(after, &thread->limit), 0))
        return false;
    thread->used = after;
    return true;
}

static inline bool sti_meter_charge(struct sti_thread *thread, uint64_t charge, size_t size, const void *caller)
{
    return sti_meter_charge_fast(thread, charge) || sti_meter_sample(thread, charge, size, caller);
}

/* Pages that the system is to be asked for, which a profile that runs is not told of: it follows blocks. */
static inline bool sti_meter_charge_pages(struct sti_thread *thread, uint64_t charge, const void *caller)
{
    bool charged = sti_meter_charge(thread, charge, STI_METER_PAGES, caller);
    thread->sampling.samples = 0;
    return charged;
}

#endif
