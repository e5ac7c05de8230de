/* SPDX-License-Identifier: MIT
 *
 * Structs of the interface that can grow; see sized.h. Any thread. */
#include "sized.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static size_t struct_size(const void *given)
{
    return *(const size_t *)given;
}

static bool has_size(const void *given, size_t first)
{
    return struct_size(given) >= first && struct_size(given) <= STI_SIZED_MAX;
}

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_zero(const char *from, const char *end)
{
    while (from < end && *from == 0)
        from++;
    return from >= end;
}

int sti_sized_in(void *ours, size_t size, size_t first, const void *given)
{
    if (!has_size(given, first))
        return EINVAL;
    if (!is_zero((const char *)given + size, (const char *)given + struct_size(given)))
        return E2BIG;
    memset(ours, 0, size);
    memcpy(ours, given, smaller_of(size, struct_size(given)));
    *(size_t *)ours = size;
    return 0;
}

int sti_sized_out(void *given, size_t first, const void *ours, size_t size)
{
    size_t theirs = struct_size(given);
    if (!has_size(given, first))
        return EINVAL;
    memset(given, 0, theirs);
    memcpy(given, ours, smaller_of(size, theirs));
    *(size_t *)given = theirs;
    return 0;
}
