/* SPDX-License-Identifier: MIT
 *
 * What is charged as it is made: blocks, by the metered allocation functions; and the library's own records. Any
 * thread. */
#ifndef STI_ALLOC_METER_ALLOCATE_H
#define STI_ALLOC_METER_ALLOCATE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc/heap/free.h"
#include "alloc/platform/caller.h"
#include "meter.h"

/* --- The metered allocation functions, inlined into each entry point, so that the entry point's return address is its
 * user's. Any thread.
 *
 * Outside a scope: straight to mimalloc. Inside: charge, then the task's heap, or the process's when the block is
 * libc's or the loader's own. The common paths end in tail calls; errno for a block that mimalloc cannot make is set by
 * its error handler (allocate.c), so they need not look at the result. */

#define STI_LIKELY(x) __builtin_expect(!!(x), 1)
#define STI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define STI_INLINE static inline __attribute__((always_inline))

/* errno is ENOMEM; returns NULL. */
__attribute__((cold)) void *sti_allocate_failed(void);

/* Allocate a block of any size, for any caller, at a sample point or not. */
void *sti_allocate_uncommon(struct sti_thread *thread, size_t size, const void *caller);
void *sti_allocate_zeroed_uncommon(struct sti_thread *thread, size_t size, const void *caller);

void *sti_allocate_aligned_uncommon(struct sti_thread *thread, size_t alignment, size_t size, const void *caller);

/* realloc of a block in a task, or where a free is not mimalloc's alone. */
void *sti_reallocate_moving(void *block, size_t size, const void *caller);

/* Beyond the limits and the grace, for code that can neither be told of a failure nor be left. */
void *sti_allocate_unrefused(size_t alignment, size_t size);

/* The usable size of a block, whichever allocator made it. */
size_t sti_allocate_usable_size(const void *block);

STI_INLINE void *sti_allocate_in_scope(struct sti_thread *thread, size_t size, const void *caller)
{
    if (STI_LIKELY(sti_caller_is_clearly_not_system(caller)) && STI_LIKELY(sti_meter_charge_small(thread, size)))
        return sti_backend_theap_malloc_small(thread->allocating, size);
    return sti_allocate_uncommon(thread, size, caller);
}

STI_INLINE void *sti_allocate(size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_counted;
    return STI_LIKELY(thread == NULL) ? sti_backend_malloc(size) : sti_allocate_in_scope(thread, size, caller);
}

STI_INLINE void *sti_allocate_zeroed(size_t count, size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_counted;
    size_t total;
    if (STI_UNLIKELY(__builtin_mul_overflow(count, size, &total)))
        return sti_allocate_failed();
    if (STI_LIKELY(thread == NULL))
        return sti_backend_zalloc(total);
    if (STI_LIKELY(sti_caller_is_clearly_not_system(caller)) && STI_LIKELY(sti_meter_charge_small(thread, total)))
        return sti_backend_theap_zalloc(thread->allocating, total);
    return sti_allocate_zeroed_uncommon(thread, total, caller);
}

STI_INLINE void *sti_reallocate(void *block, size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_counted;
    if (STI_LIKELY(thread == NULL) &&
        STI_LIKELY(atomic_load_explicit(&sti_free_function, memory_order_relaxed) == STI_BACKEND_FREE))
        return sti_backend_realloc(block, size);
    if (block != NULL)
        return sti_reallocate_moving(block, size, caller);
    return thread != NULL ? sti_allocate_in_scope(thread, size, caller) : sti_backend_malloc(size);
}

STI_INLINE void *sti_reallocate_array(void *block, size_t count, size_t size, const void *caller)
{
    size_t total;
    if (STI_UNLIKELY(__builtin_mul_overflow(count, size, &total)))
        return sti_allocate_failed();
    return sti_reallocate(block, total, caller);
}

/* alignment is 0 or a power of two. */
STI_INLINE void *sti_allocate_aligned(size_t alignment, size_t size, const void *caller)
{
    if (alignment <= 16)
        return sti_allocate(alignment == 16 && size < 16 ? 16 : size,
                            caller); /* mimalloc's smallest are aligned to 8 */
    struct sti_thread *thread = sti_thread_counted;
    if (STI_UNLIKELY(thread != NULL))
        return sti_allocate_aligned_uncommon(thread, alignment, size, caller);
    /* mimalloc does not report an aligned block that it cannot make. */
    void *block = sti_backend_aligned(alignment, size);
    return STI_LIKELY(block != NULL) ? block : sti_allocate_failed();
}

STI_INLINE bool sti_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* As posix_memalign: the error, and *block only on success. POSIX leaves open what errno is after a refusal; glibc's is
 * ENOMEM, and programs print it. */
STI_INLINE int sti_allocate_posix(void **block, size_t alignment, size_t size, const void *caller)
{
    if (!sti_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved_errno = errno;
    void *made = sti_allocate_aligned(alignment, size, caller);
    if (made == NULL)
        return ENOMEM;
    errno = saved_errno;
    *block = made;
    return 0;
}

/* As aligned_alloc and memalign, which take any power of two. */
STI_INLINE void *sti_allocate_memalign(size_t alignment, size_t size, const void *caller)
{
    if (!sti_is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return sti_allocate_aligned(alignment, size, caller);
}

STI_INLINE char *sti_allocate_copy(const char *string, size_t length, const void *caller)
{
    char *copy = sti_allocate(length + 1, caller);
    if (copy == NULL)
        return NULL;
    copy[length] = '\0';
    return memcpy(copy, string, length);
}

/* A block that libc has made, and hands to the caller to free, becomes the innermost scope's: a copy of so many bytes
 * takes its place, 0: of all of it, beyond the scope's limits too. Returns what the caller is to have: libc's block
 * where the system has no memory for a copy, or there is no scope. */
void *sti_adopt(void *block, size_t size, const void *caller);

/* --- The library's own records that a task makes: tokens, accounts, futures, and what follows these. They come from
 * the process's heap (process.h), as others may have references to them when the task has ended; but they are charged
 * to the task like the blocks that libc makes for itself, so that no task makes more of them than its allocation limit
 * allows. Calling thread only, at the beginning of a public function: it is a sample point, which may not return. */

/* When that may be a sample point. */
bool sti_record_charge_beyond(struct sti_thread *thread, uint64_t charge, const void *caller);

/* Charge a record of so many bytes to the innermost scope, if there is one. caller: the return address of the public
 * function. False: ENOMEM is to be returned. thread: sti_thread_metered. */
static inline bool sti_record_charge_to(struct sti_thread *thread, size_t size, const void *caller)
{
    uint64_t charge = sti_meter_rounded(size);
    return __builtin_expect(thread == NULL, 1) || __builtin_expect(sti_meter_charge_fast(thread, charge), 1) ||
           sti_record_charge_beyond(thread, charge, caller);
}

static inline bool sti_record_charge(size_t size, const void *caller)
{
    return sti_record_charge_to(sti_thread_metered, size, caller);
}

/* So often has mimalloc found what its lists say of free blocks to be wrong. Any thread. */
size_t sti_allocate_faults(void);

/* At start. */
void sti_allocate_start(void);

#endif
