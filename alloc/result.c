/* SPDX-License-Identifier: MIT
 *
 * stint_result_malloc and its family: blocks of the nursery, whatever the age of their scope. Any thread. */
#include <stint/result.h>

#include "allocate.h"
#include "memprof.h"
#include "nursery.h"
#include "scope_state.h"

/* In a scope, and charged. */
static void *make(struct sti_thread *thread, size_t size)
{
    return thread->scope->keeps == 0 ? sti_nursery_malloc_result(thread, size) : sti_backend_malloc(size);
}

STI_INLINE void *allocate(size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread != sti_thread_counted || !sti_nursery_takes_result(thread, size))
        return sti_allocate(size, caller);
    if (!sti_meter_charge(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *block = make(thread, size);
    return block != NULL ? sti_memprof_made(thread, block, size, 0, caller) : sti_allocate_failed();
}

void *stint_result_malloc(size_t size)
{
    return allocate(size, STI_CALLER());
}

void *stint_result_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return sti_allocate_failed();
    void *block = allocate(total, STI_CALLER());
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *stint_result_realloc(void *block, size_t size)
{
    void *moved = allocate(size, STI_CALLER());
    if (moved == NULL || block == NULL)
        return moved;
    size_t before = sti_backend_usable_size(block);
    memcpy(moved, block, before < size ? before : size);
    sti_free(block);
    return moved;
}

char *stint_result_strdup(const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = allocate(size, STI_CALLER());
    return copy != NULL ? memcpy(copy, string, size) : NULL;
}
