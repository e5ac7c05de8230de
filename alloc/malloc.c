/* SPDX-License-Identifier: MIT
 *
 * The stint_malloc family, which every build has. Any thread. */
#include <stint/alloc.h>

#include "allocate.h"

void *sti_allocate_failed(struct sti_thread *thread, uint64_t charge)
{
    if (thread != NULL)
        sti_meter_uncharge(thread, charge);
    errno = ENOMEM;
    return NULL;
}

void *stint_malloc(size_t size)
{
    return sti_allocate(size, STI_CALLER());
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
    sti_backend_free(block);
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
