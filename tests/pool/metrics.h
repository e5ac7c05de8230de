/* SPDX-License-Identifier: MIT
 *
 * For tests of stint_metrics_write: its text, and the samples in it. */
#ifndef TESTS_POOL_METRICS_H
#define TESTS_POOL_METRICS_H

#include "pools.h"

#include <sys/mman.h>

#define TEXT_MAX ((size_t)1 << 20)

static inline int write_to_memory(void)
{
    int fd = memfd_create("metrics", MFD_CLOEXEC);
    if (fd < 0 || stint_metrics_write(fd) != 0)
        return -1;
    return fd;
}

/* To be freed. */
static inline char *text_of(int fd)
{
    char *text = malloc(TEXT_MAX);
    assert_non_null(text);
    ssize_t size = pread(fd, text, TEXT_MAX - 1, 0);
    assert_true(size > 0);
    text[size] = '\0';
    close(fd);
    return text;
}

static inline bool is_whole(const char *text)
{
    size_t length = strlen(text);
    return length > 6 && strcmp(text + length - 6, "# EOF\n") == 0;
}

static inline char *metrics(void)
{
    char *text = text_of(write_to_memory());
    assert_true(is_whole(text));
    return text;
}

/* The sample of that name and labels; -1: there is none. */
static inline double look_up(const char *text, const char *sample)
{
    size_t length = strlen(sample);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, sample, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
    }
    return -1;
}

static inline double read_metric(const char *sample)
{
    char *text = metrics();
    double value = look_up(text, sample);
    free(text);
    return value;
}

/* Bytes as many as arg says, in one block. */
static inline int allocate(void *arg, void **value)
{
    (void)value;
    stint_free(keep(stint_malloc(*(size_t *)arg)));
    return 0;
}

#endif
