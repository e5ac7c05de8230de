/* SPDX-License-Identifier: MIT
 *
 * Memory for the library's own records; see process.h. */
#include "process.h"

#include <string.h>

#include "backend.h"
#include "tsan.h"

static void *made(void *block)
{
    if (block != NULL)
        STI_BLOCK_MADE(block);
    return block;
}

void *sti_process_malloc(size_t size)
{
    return made(sti_backend_malloc(size));
}

void *sti_process_calloc(size_t count, size_t size)
{
    size_t total;
    void *block = __builtin_mul_overflow(count, size, &total) ? NULL : sti_process_malloc(total);
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *sti_process_realloc(void *block, size_t size)
{
    return sti_backend_realloc(block, size);
}

void *sti_process_aligned(size_t alignment, size_t size)
{
    return made(sti_backend_aligned(alignment, size));
}

void sti_process_free(void *block)
{
    if (block != NULL)
        STI_BLOCK_GIVEN_BACK(block);
    sti_backend_free(block);
}
