/* SPDX-License-Identifier: MIT
 *
 * For tests of how much memory stays: in debug mode a thread keeps its last 32 heaps that were rolled back, and with
 * each mimalloc's records, of itself and of its pages: 4 KiB of 64. And the process records its blocks. */
#ifndef TESTS_QUARANTINE_H
#define TESTS_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RECORD ((size_t)16 << 20)

static inline bool in_debug_mode(void)
{
    const char *value = getenv("STINT_DEBUG");
    return value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
}

/* Bytes that the record of the process's blocks takes at most. */
static inline size_t record_room(void)
{
    return in_debug_mode() ? RECORD : 0;
}

/* Bytes that one thread's quarantine takes after tasks of this size. */
static inline size_t quarantine_room(size_t of_task)
{
    return in_debug_mode() ? record_room() + 32 * (((size_t)512 << 10) + of_task / 16) : 0;
}

#endif
