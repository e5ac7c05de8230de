/* SPDX-License-Identifier: MIT
 *
 * The stint_malloc family, which every build has, what is rare in it, and charging the library's own records; see
 * allocate.h. Any thread. */
#include "allocate.h"

#include <stdatomic.h>
#include <stint/interrupt.h>
#include <stint/memory.h>
#include <stint/stint.h>
#include <string.h>

#include "alloc/heap/checked.h"
#include "alloc/heap/free.h"
#include "alloc/heap/libc_heap.h"
#include "alloc/heap/nursery.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "global.h"

/* --- The stint_malloc family, which every build has. Any thread. --- */

void *sti_allocate_failed(void)
{
    errno = ENOMEM;
    return NULL;
}

/* The heap of the innermost scope's next blocks, which it gets now if it has none; NULL: out of memory. */
static sti_backend_theap *heap_of_scope(struct sti_thread *thread)
{
    return thread->allocating != NULL || sti_meter_grow(thread) ? thread->allocating : NULL;
}

static void *block_make(struct sti_thread *thread, size_t size)
{
    void *block = thread->allocating == NULL ? sti_nursery_malloc(thread, size) : NULL;
    if (block != NULL)
        return block;
    sti_backend_theap *heap = heap_of_scope(thread);
    return heap != NULL ? sti_backend_theap_malloc(heap, size) : sti_allocate_failed();
}

static void *block_make_zeroed(struct sti_thread *thread, size_t size)
{
    void *block = thread->allocating == NULL ? sti_nursery_malloc(thread, size) : NULL;
    if (block != NULL)
        return memset(block, 0, size);
    sti_backend_theap *heap = heap_of_scope(thread);
    return heap != NULL ? sti_backend_theap_zalloc(heap, size) : sti_allocate_failed();
}

static void *block_make_aligned(struct sti_thread *thread, size_t alignment, size_t size)
{
    sti_backend_theap *heap = heap_of_scope(thread);
    return heap != NULL ? sti_backend_theap_aligned(heap, alignment, size) : NULL;
}

void *sti_allocate_unrefused(size_t alignment, size_t size)
{
    struct sti_thread *thread = sti_thread_metered;
    thread->used += sti_meter_rounded(size);
    void *block = block_make_aligned(thread, alignment > 16 ? alignment : 16, size);
    return sti_checked_new(block, size, NULL);
}

static void *block_adopt(void *block, size_t size, const void *caller)
{
    int saved_errno = errno;
    void *copy = sti_allocate(size, caller);
    if (copy == NULL) /* libc's goes in exchange */
        copy = sti_allocate_unrefused(0, size);
    errno = saved_errno;
    if (copy == NULL)
        return block;
    memcpy(copy, block, size);
    sti_free(block);
    return copy;
}

void *sti_adopt(void *block, size_t size, const void *caller)
{
    if (block == NULL || sti_thread_metered == NULL || !stint_malloc_is_overridden())
        return block;
    stint_mask();
    block = block_adopt(block, size != 0 ? size : sti_backend_usable_size(block), caller);
    stint_unmask();
    return block;
}

/* Charge size bytes. */
static bool block_charge(struct sti_thread *thread, size_t size, const void *caller, enum sti_source *source)
{
    if (!sti_meter_charge_fast(thread, sti_meter_rounded(size)) &&
        !sti_meter_sample(thread, sti_meter_rounded(size), size, caller))
        return false;
    *source = sti_meter_source(thread, caller);
    return true;
}

void *sti_allocate_uncommon(struct sti_thread *thread, size_t size, const void *caller)
{
    enum sti_source source;
    if (!block_charge(thread, size, caller, &source))
        return NULL;
    void *block = source == STI_SOURCE_TASK   ? block_make(thread, size)
                  : source == STI_SOURCE_LIBC ? sti_libc_heap_malloc(thread, size)
                                              : sti_backend_malloc(size);
    block = sti_checked_new(block, size, caller);
    return sti_sampling_made(thread, block, size, 0, caller);
}

void *sti_allocate_zeroed_uncommon(struct sti_thread *thread, size_t size, const void *caller)
{
    enum sti_source source;
    if (!block_charge(thread, size, caller, &source))
        return NULL;
    void *block = source == STI_SOURCE_TASK   ? block_make_zeroed(thread, size)
                  : source == STI_SOURCE_LIBC ? sti_libc_heap_zalloc(thread, size)
                                              : sti_backend_zalloc(size);
    block = sti_checked_new(block, size, caller);
    return sti_sampling_made(thread, block, size, 0, caller);
}

void *sti_allocate_aligned_uncommon(struct sti_thread *thread, size_t alignment, size_t size, const void *caller)
{
    size_t whole;
    enum sti_source source;
    if (__builtin_add_overflow(size, alignment, &whole))
        return sti_allocate_failed();
    if (!block_charge(thread, whole, caller, &source))
        return NULL;
    void *block;
    if (source == STI_SOURCE_PROCESS) {
        block = sti_backend_aligned(alignment, size);
    } else if (source == STI_SOURCE_LIBC) {
        block = sti_libc_heap_aligned(thread, alignment, size);
    } else {
        block = block_make_aligned(thread, alignment, size);
    }
    block = sti_checked_new(block, size, caller);
    return block != NULL ? sti_sampling_made(thread, block, size, alignment, caller) : sti_allocate_failed();
}

/* Whether the block stays where it is, is a rule of ours, so that the charge does not depend on mimalloc's. */
void *sti_reallocate_moving(void *block, size_t size, const void *caller)
{
    if (sti_process_is_partial())
        return sti_process_realloc_in_part(block, size);
    if (block == NULL)
        return sti_allocate(size, caller);
    if (sti_checked_is_on)
        sti_checked_expect(block, caller);
    size_t usable = sti_backend_usable_size(block);
    if (size <= usable && size >= usable / 2 && size > 0)
        return block;
    void *moved = sti_allocate(size, caller);
    if (STI_LIKELY(moved != NULL)) {
        memcpy(moved, block, usable < size ? usable : size);
        sti_free(block);
    }
    return moved;
}

static atomic_size_t faults;

size_t sti_allocate_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_relaxed);
}

/* mimalloc sets no errno; it reports ENOMEM, and EOVERFLOW for an absurd size, which malloc calls ENOMEM too. Whatever
 * else it reports is a list of free blocks that it has found broken, in the midst of any function. */
static void hear_error(int error, void *unused)
{
    (void)unused;
    if (error == ENOMEM || error == EOVERFLOW)
        errno = ENOMEM;
    else
        atomic_fetch_add_explicit(&faults, 1, memory_order_relaxed);
}

void sti_allocate_start(void)
{
    sti_backend_on_error(hear_error);
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

size_t sti_allocate_usable_size(const void *block)
{
    return sti_process_is_partial() ? sti_process_usable_size_in_part((void *)(uintptr_t)block)
                                    : sti_backend_usable_size(block);
}

size_t stint_malloc_usable_size(const void *block)
{
    return sti_allocate_usable_size(block);
}

int stint_malloc_trim(size_t pad)
{
    (void)pad;
    if (sti_process_is_partial())
        return 0;
    struct sti_thread *thread = sti_thread_counted;
    sti_thread_counted = NULL;
    sti_give_back();
    sti_thread_counted = thread;
    return 1;
}

char *stint_strdup(const char *string)
{
    return sti_allocate_copy(string, strlen(string), STI_CALLER());
}

char *stint_strndup(const char *string, size_t length)
{
    return sti_allocate_copy(string, strnlen(string, length), STI_CALLER());
}

/* --- Charging the library's own records. Calling thread only. --- */

/* A profile that runs is not told of them: it follows blocks of the program's. */

/* Where only the task's own limit could refuse it, and does not, that is known without a sample point: which would give
 * the scope a heap, that a task which only submits does without. */
static bool is_free_to_charge(const struct sti_thread *thread, uint64_t after)
{
    const struct sti_scope *scope = thread->scope;
    return scope->outer == NULL && scope->account == NULL && scope->share == NULL && after <= scope->allocation_end &&
           after <= thread->sampling.next && scope->tripped == STINT_REASON_NONE;
}

bool sti_record_charge_beyond(struct sti_thread *thread, uint64_t charge, const void *caller)
{
    if (is_free_to_charge(thread, thread->used + charge)) {
        thread->used += charge;
        return true;
    }
    thread->may_throw = true;
    bool charged = sti_meter_sample(thread, charge, 0, caller);
    thread->may_throw = false;
    thread->sampling.samples = 0;
    return charged;
}
