/* SPDX-License-Identifier: MIT
 *
 * Functions that open each kind of libc's handles, and a count of the process's blocks that were not freed. */
#ifndef TESTS_HANDLES_H
#define TESTS_HANDLES_H

#include "support.h"

#include <dirent.h>
#include <regex.h>
#include <stdatomic.h>
#include <stint/observe.h>
#include <wchar.h>

/* Opens something, with its structure, if there is one, in a variable that is gone by the end. NULL: it could not. */
typedef void *open_fn(void);

static void *open_regex(void)
{
    regex_t regex;
    return regcomp(&regex, "(a|b)*c{2,9}", REG_EXTENDED | REG_ICASE) == 0 ? regex.buffer : NULL;
}

static void *open_directory(void)
{
    return opendir("/");
}

static void *open_file(void)
{
    FILE *file = fopen("/etc/passwd", "r");
    return file != NULL && fgetc(file) != EOF ? file : NULL;
}

static void *open_temporary_file(void)
{
    FILE *file = tmpfile();
    return file != NULL && fputs("unwritten", file) >= 0 ? file : NULL;
}

static void *open_in_memory(void)
{
    char *buffer = malloc(100);
    FILE *file = buffer != NULL ? fmemopen(buffer, 100, "w") : NULL;
    return file != NULL && fputs("unwritten", file) >= 0 ? file : NULL;
}

static void *open_growing(void)
{
    char *block;
    size_t size;
    FILE *file = open_memstream(&block, &size);
    return file != NULL && fprintf(file, "%20000d", 1) > 0 ? file : NULL;
}

static void *open_wide_growing(void)
{
    wchar_t *block;
    size_t size;
    FILE *file = open_wmemstream(&block, &size);
    return file != NULL && fwprintf(file, L"%2000d", 1) > 0 ? file : NULL;
}

static const struct {
    const char *name;
    open_fn *open;
} openers[] = {
    { "regcomp", open_regex },
    { "opendir", open_directory },
    { "fopen", open_file },
    { "tmpfile", open_temporary_file },
    { "fmemopen", open_in_memory },
    { "open_memstream", open_growing },
    { "open_wmemstream", open_wide_growing },
};

#define OPENERS (sizeof openers / sizeof *openers)

/* --- Blocks of the process's that are not given back --- */

static atomic_long live;

static void *count_made(const stint_memprof_allocation *allocation, void *arg)
{
    (void)arg;
    if (allocation->in_task_heap)
        return NULL;
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return &live;
}

static void count_end(void *metadata, stint_memprof_end end, void *arg)
{
    (void)metadata;
    (void)arg;
    if (end == STINT_MEMPROF_FREED)
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

static inline void start_to_count(void)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.rate = 1;
    options.interval = 0;
    options.callstack_depth = 0;
    options.tracker = (stint_memprof_tracker){ .alloc = count_made, .dealloc = count_end };
    live = 0;
    assert_int_equal(stint_memprof_start(&options), 0);
}

static inline int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 1000; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

#endif
