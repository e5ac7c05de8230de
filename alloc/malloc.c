/* SPDX-License-Identifier: MIT
 *
 * The stint_malloc family, which every build has. Any thread. */
#include <stint/alloc.h>

#include "allocate.h"
#include "tracked.h"

void *sti_allocate_failed(void)
{
    errno = ENOMEM;
    return NULL;
}

_Atomic(sti_free_fn *) sti_free_function = STI_BACKEND_FREE;

void sti_free_by(sti_free_fn *function)
{
    sti_free_fn *now = atomic_load_explicit(&sti_free_function, memory_order_relaxed);
    while (now != sti_wipe_free && !atomic_compare_exchange_weak_explicit(&sti_free_function, &now, function,
                                                                          memory_order_relaxed, memory_order_relaxed))
        ;
}

static __attribute__((noinline)) void *allocate_at_sample(struct sti_thread *thread, size_t size, const void *caller)
{
    if (!sti_meter_sample(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *block = sti_meter_is_process_block(thread, caller) ? sti_backend_malloc(size)
                                                             : sti_backend_heap_malloc(thread->allocating, size);
    return sti_memprof_made(thread, block, size, 0, caller);
}

void *sti_allocate_uncommon(struct sti_thread *thread, size_t size, const void *caller)
{
    if (!sti_meter_charge_fast(thread, sti_meter_rounded(size)))
        return allocate_at_sample(thread, size, caller);
    return sti_caller_is_system(caller) ? sti_backend_malloc(size) : sti_backend_heap_malloc(thread->allocating, size);
}

static __attribute__((noinline)) void *allocate_zeroed_at_sample(struct sti_thread *thread, size_t size,
                                                                 const void *caller)
{
    if (!sti_meter_sample(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *block = sti_meter_is_process_block(thread, caller) ? sti_backend_zalloc(size)
                                                             : sti_backend_heap_zalloc(thread->allocating, size);
    return sti_memprof_made(thread, block, size, 0, caller);
}

void *sti_allocate_aligned_at_sample(struct sti_thread *thread, size_t alignment, size_t size, const void *caller)
{
    size_t whole = size + alignment;
    if (!sti_meter_sample(thread, sti_meter_rounded(whole), whole, caller))
        return NULL;
    void *block = sti_meter_is_process_block(thread, caller)
                      ? sti_backend_aligned(alignment, size)
                      : sti_backend_heap_aligned(thread->allocating, alignment, size);
    return block != NULL ? sti_memprof_made(thread, block, size, alignment, caller) : sti_allocate_failed();
}

void *sti_allocate_unrefused(size_t alignment, size_t size)
{
    struct sti_thread *thread = sti_thread_metered;
    thread->used += sti_meter_rounded(size);
    if (thread->allocating == NULL)
        return sti_backend_aligned(alignment != 0 ? alignment : 16, size);
    return sti_backend_heap_aligned(thread->allocating, alignment != 0 ? alignment : 16, size);
}

void *sti_reallocate_at_sample(struct sti_thread *thread, void *block, size_t size, const void *caller)
{
    if (!sti_meter_sample(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *moved = sti_meter_is_process_block(thread, caller)
                      ? sti_backend_realloc(block, size)
                      : sti_backend_heap_realloc(thread->allocating, block, size);
    return sti_memprof_made(thread, moved, size, 0, caller);
}

void *sti_allocate_zeroed_uncommon(struct sti_thread *thread, size_t size, const void *caller)
{
    if (!sti_meter_charge_fast(thread, sti_meter_rounded(size)))
        return allocate_zeroed_at_sample(thread, size, caller);
    return sti_caller_is_system(caller) ? sti_backend_zalloc(size) : sti_backend_heap_zalloc(thread->allocating, size);
}

void *sti_reallocate_watched(struct sti_thread *thread, void *block, size_t size, const void *caller)
{
    if (block != NULL && sti_wipe_is_due() && !sti_allocate_fits(block, size))
        return sti_wipe_reallocate(block, size, caller);
    if (atomic_load_explicit(&sti_memprof_follows, memory_order_relaxed) && sti_tracked_may_contain(block))
        return sti_memprof_reallocate(thread, block, size, caller);
    return sti_reallocate_plainly(thread, block, size, caller);
}

/* mimalloc sets no errno; it reports ENOMEM, and EOVERFLOW for an absurd size, which malloc calls ENOMEM too. */
static void set_errno(int error, void *unused)
{
    (void)unused;
    errno = error == EOVERFLOW ? ENOMEM : error;
}

__attribute__((constructor)) static void hear_errors(void)
{
    sti_backend_on_error(set_errno);
}

void *stint_malloc(size_t size)
{
    struct sti_thread *thread = sti_thread_counted;
    return STI_LIKELY(thread == NULL) ? sti_backend_malloc(size) : sti_allocate_in_scope(thread, size, STI_CALLER());
}

void *stint_calloc(size_t count, size_t size)
{
    return sti_allocate_zeroed(count, size, STI_CALLER());
}

void *stint_realloc(void *block, size_t size)
{
    return sti_reallocate(block, size, STI_CALLER());
}

void *stint_reallocarray(void *block, size_t count, size_t size)
{
    return sti_reallocate_array(block, count, size, STI_CALLER());
}

void *stint_aligned_alloc(size_t alignment, size_t size)
{
    return sti_allocate_memalign(alignment, size, STI_CALLER());
}

int stint_posix_memalign(void **block, size_t alignment, size_t size)
{
    return sti_allocate_posix(block, alignment, size, STI_CALLER());
}

void stint_free(void *block)
{
    sti_free(block);
}

size_t stint_malloc_usable_size(const void *block)
{
    return sti_backend_usable_size(block);
}

char *stint_strdup(const char *string)
{
    return sti_allocate_copy(string, strlen(string), STI_CALLER());
}

char *stint_strndup(const char *string, size_t length)
{
    return sti_allocate_copy(string, strnlen(string, length), STI_CALLER());
}
