/* SPDX-License-Identifier: MIT
 *
 * malloc and its family, in place of libc's, for the program and every library in it. Any thread. */
#include <stint/alloc.h>
#include <unistd.h>

#include "allocate.h"

/* A line of the cache holds the whole of their common paths, wherever else the linker would have put them: that is worth
 * as much as the metering costs. */
#define AT_A_CACHE_LINE __attribute__((aligned(64)))

STINT_API AT_A_CACHE_LINE void *malloc(size_t size);
STINT_API void *calloc(size_t count, size_t size);
STINT_API void *realloc(void *block, size_t size);
STINT_API void *reallocarray(void *block, size_t count, size_t size);
STINT_API int posix_memalign(void **block, size_t alignment, size_t size);
STINT_API void *aligned_alloc(size_t alignment, size_t size);
STINT_API void *memalign(size_t alignment, size_t size);
STINT_API void *valloc(size_t size);
STINT_API void *pvalloc(size_t size);
STINT_API AT_A_CACHE_LINE void free(void *block);
STINT_API size_t malloc_usable_size(void *block);
STINT_API int malloc_trim(size_t pad);

void *malloc(size_t size)
{
    struct sti_thread *thread = sti_thread_counted;
    /* The longer way goes straight on, so that it is no longer by a jump. */
    return STI_UNLIKELY(thread == NULL) ? sti_backend_malloc(size) : sti_allocate_in_scope(thread, size, STI_CALLER());
}

void *calloc(size_t count, size_t size)
{
    return sti_allocate_zeroed(count, size, STI_CALLER());
}

void *realloc(void *block, size_t size)
{
    return sti_reallocate(block, size, STI_CALLER());
}

void *reallocarray(void *block, size_t count, size_t size)
{
    return sti_reallocate_array(block, count, size, STI_CALLER());
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    return sti_allocate_posix(block, alignment, size, STI_CALLER());
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return sti_allocate_memalign(alignment, size, STI_CALLER());
}

void *memalign(size_t alignment, size_t size)
{
    return sti_allocate_memalign(alignment, size, STI_CALLER());
}

void *valloc(size_t size)
{
    return sti_allocate_aligned((size_t)sysconf(_SC_PAGESIZE), size, STI_CALLER());
}

/* Whole pages, at least one. */
void *pvalloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded;
    if (__builtin_add_overflow(size == 0 ? 1 : size, page - 1, &rounded))
        return sti_allocate_failed();
    return sti_allocate_aligned(page, rounded & ~(page - 1), STI_CALLER());
}

void free(void *block)
{
    sti_free(block);
}

int malloc_trim(size_t pad)
{
    return stint_malloc_trim(pad);
}

size_t malloc_usable_size(void *block)
{
    return sti_backend_usable_size(block);
}
