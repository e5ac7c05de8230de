/* SPDX-License-Identifier: MIT
 *
 * The audit of descriptors: lists of /proc/thread-self/fd, a bit a descriptor, and what is new between two of them. Any
 * thread.
 *
 * The directory is read with bare system calls: opendir would allocate inside somebody's scope. It is this thread's,
 * since that of the process is empty once its first thread has ended. */
#include "descriptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stint/descriptor.h>
#include <string.h>
#include <unistd.h>

#include "boundary.h"
#include "process.h"
#include "quiet.h"
#include "resident.h"

#define DIRECTORY "/proc/thread-self/fd"
#define WORD_BITS 64

struct sti_descriptors {
    size_t words;
    uint64_t open[];
};

static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT;
static stint_descriptor_report *report_function;
static void *report_argument;

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

void stint_set_descriptor_report(stint_descriptor_report *report, void *arg)
{
    pthread_mutex_lock(&lock.mutex);
    report_function = report;
    report_argument = arg;
    pthread_mutex_unlock(&lock.mutex);
}

static bool is_listed(const struct sti_descriptors *list, unsigned descriptor)
{
    size_t word = descriptor / WORD_BITS;
    return word < list->words && (list->open[word] >> descriptor % WORD_BITS & 1) != 0;
}

/* The list with room for this descriptor; NULL: no memory, and the list is gone. */
static struct sti_descriptors *grown(struct sti_descriptors *list, unsigned descriptor)
{
    size_t words = descriptor / WORD_BITS + 1;
    if (words <= list->words)
        return list;
    struct sti_descriptors *larger = sti_process_realloc(list, sizeof *list + words * sizeof list->open[0]);
    if (larger == NULL) {
        sti_process_free(list);
        return NULL;
    }
    memset(&larger->open[larger->words], 0, (words - larger->words) * sizeof larger->open[0]);
    larger->words = words;
    return larger;
}

/* "." and ".." are none. */
static bool is_number(const char *name, unsigned *number)
{
    *number = 0;
    for (const char *digit = name; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return false;
        *number = *number * 10 + (unsigned)(*digit - '0');
    }
    return true;
}

static struct sti_descriptors *with_entries(struct sti_descriptors *list, const char *entries, size_t size,
                                            int excluded)
{
    const struct dirent64 *entry;
    for (size_t at = 0; list != NULL && at < size; at += entry->d_reclen) {
        entry = (const struct dirent64 *)(const void *)(entries + at);
        unsigned descriptor;
        if (!is_number(entry->d_name, &descriptor) || descriptor == (unsigned)excluded ||
            sti_resident_keeps((int)descriptor))
            continue;
        list = grown(list, descriptor);
        if (list != NULL)
            list->open[descriptor / WORD_BITS] |= UINT64_C(1) << descriptor % WORD_BITS;
    }
    return list;
}

struct sti_descriptors *sti_descriptors_list(void)
{
    struct sti_descriptors *list = sti_process_calloc(1, sizeof *list);
    int directory = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(struct dirent64) char entries[2048];
    ssize_t size = 0;
    while (list != NULL && directory >= 0 && (size = getdents64(directory, entries, sizeof entries)) > 0)
        list = with_entries(list, entries, (size_t)size, directory);
    if (directory >= 0)
        close(directory);
    if (directory >= 0 && size == 0)
        return list;
    sti_process_free(list);
    return NULL;
}

static void report(unsigned descriptor, const char *task)
{
    pthread_mutex_lock(&lock.mutex);
    stint_descriptor_report *function = report_function;
    void *argument = report_argument;
    pthread_mutex_unlock(&lock.mutex);
    if (function == NULL)
        return;
    char link[sizeof DIRECTORY + 16];
    char target[PATH_MAX];
    snprintf(link, sizeof link, DIRECTORY "/%u", descriptor);
    ssize_t length = readlink(link, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    stint_descriptor public = { .descriptor = (int)descriptor, .target = target, .task = task };
    STI_BOUNDARY_CALLBACK("report", function, &public, argument, NULL);
}

uint64_t sti_descriptors_left(const struct sti_descriptors *before, const char *task)
{
    if (before == NULL)
        return 0;
    struct sti_descriptors *after = sti_descriptors_list();
    if (after == NULL)
        return 0;
    uint64_t left = 0;
    for (unsigned descriptor = 0; descriptor < after->words * WORD_BITS; descriptor++) {
        if (is_listed(after, descriptor) && !is_listed(before, descriptor)) {
            left++;
            report(descriptor, task);
        }
    }
    sti_process_free(after);
    return left;
}

void sti_descriptors_free(struct sti_descriptors *list)
{
    sti_process_free(list);
}
