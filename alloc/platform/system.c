/* SPDX-License-Identifier: MIT
 *
 * What the system says of this process: its control group, how much of it is in memory, and its threads; see system.h.
 * Any thread. */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "module.h"
#include "process.h"
#include "thread.h"

/* --- The control group of this process. Any thread.
 *
 * /proc/self/cgroup has a line for each hierarchy; version 2's is "0::path". Version 2 is mounted at /sys/fs/cgroup, by
 * systemd and by the runtimes of containers. In a container the path may be one of the system outside; then it is not
 * there, and what is mounted is a group above this one. See cgroups(7). */

#define MOUNT "/sys/fs/cgroup"
#define VERSION_2 "0::"
#define KILL_MARGIN_SHIFT 4

/* As a string, cut to size. */
static bool read_file(const char *path, char *text, size_t size)
{
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
        return false;
    ssize_t count;
    do {
        count = read(opened, text, size - 1);
    } while (count < 0 && errno == EINTR);
    close(opened);
    text[count > 0 ? count : 0] = '\0';
    return count >= 0;
}

/* The process's path; NULL: there is none. */
static const char *find_path(char *lines)
{
    char *rest = NULL;
    const char *line = strtok_r(lines, "\n", &rest);
    while (line != NULL && strncmp(line, VERSION_2, strlen(VERSION_2)) != 0)
        line = strtok_r(NULL, "\n", &rest);
    return line != NULL ? line + strlen(VERSION_2) : NULL;
}

/* Every group has this file, and nothing of version 1 has. */
static bool is_version_2(const struct sti_cgroup *group)
{
    char text[1];
    return sti_cgroup_read(group, "cgroup.controllers", text, sizeof text);
}

/* Go to the group below the mount, if it is there. */
static void cgroup_descend(struct sti_cgroup *group, const char *path)
{
    if (strlen(path) >= sizeof group->directory - group->top || strcmp(path, "/") == 0 || strstr(path, "/..") != NULL)
        return;
    strcpy(group->directory + group->top, path);
    if (access(group->directory, F_OK) != 0)
        group->directory[group->top] = '\0';
}

bool sti_cgroup_find(struct sti_cgroup *group, const char *root)
{
    char lines[4 * STI_CGROUP_PATH_MAX];
    snprintf(lines, sizeof lines, "%s/proc/self/cgroup", root);
    const char *path = read_file(lines, lines, sizeof lines) ? find_path(lines) : NULL;
    group->top = (size_t)snprintf(group->directory, sizeof group->directory, "%s" MOUNT, root);
    if (path == NULL || group->top >= sizeof group->directory || !is_version_2(group))
        return false;
    cgroup_descend(group, path);
    return true;
}

bool sti_cgroup_ascend(struct sti_cgroup *group)
{
    char *last = strrchr(group->directory, '/');
    if (last == NULL || (size_t)(last - group->directory) < group->top)
        return false;
    *last = '\0';
    return true;
}

bool sti_cgroup_read(const struct sti_cgroup *group, const char *file, char *text, size_t size)
{
    char path[STI_CGROUP_PATH_MAX + 64];
    int length = snprintf(path, sizeof path, "%s/%s", group->directory, file);
    return length > 0 && (size_t)length < sizeof path && size > 0 && read_file(path, text, size);
}

/* SIZE_MAX: there is none ("max"). */
static size_t limit_in(const struct sti_cgroup *group, const char *file)
{
    char text[64];
    if (!sti_cgroup_read(group, file, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return SIZE_MAX;
    return strtoull(text, NULL, 10);
}

static size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t sti_cgroup_memory_limit(const char *root)
{
    struct sti_cgroup group;
    int error = errno;
    size_t limit = SIZE_MAX;
    if (sti_cgroup_find(&group, root)) {
        do {
            size_t killed = limit_in(&group, "memory.max");
            limit = size_min(limit, killed != SIZE_MAX ? killed - (killed >> KILL_MARGIN_SHIFT) : SIZE_MAX);
            limit = size_min(limit, limit_in(&group, "memory.high"));
        } while (sti_cgroup_ascend(&group));
    }
    errno = error;
    if (limit == SIZE_MAX)
        return 0;
    return limit > 0 ? limit : 1;
}

/* --- How much of this process is in memory. All of it with the lock, which is there at start as no task is. --- */

#define NONE (-1)
#define FIRST_BEHIND_STANDARD 3

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static int kept = NONE;
static struct stat kept_file; /* the kernel gives its numbers to no other file while this one is open */

static bool descriptor_is_ours(int descriptor)
{
    struct stat file;
    return descriptor >= 0 && fstat(descriptor, &file) == 0 && file.st_dev == kept_file.st_dev &&
           file.st_ino == kept_file.st_ino;
}

/* 0: it cannot be read, or is of a thread that has ended. */
static size_t statm_read_from(int descriptor)
{
    char text[128];
    ssize_t length = pread(descriptor, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *pages = strchr(text, ' ');
    return pages != NULL ? strtoul(pages, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static void keep_none(void)
{
    if (descriptor_is_ours(kept))
        close(kept);
    kept = NONE;
}

/* Not where a program expects one of the standard three that it has closed. 0: with errno. */
static size_t statm_keep(const char *path)
{
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    sti_process_note_use();
    kept =
        opened >= 0 && opened < FIRST_BEHIND_STANDARD ? fcntl(opened, F_DUPFD_CLOEXEC, FIRST_BEHIND_STANDARD) : opened;
    if (kept != opened)
        close(opened);
    if (kept < 0 || fstat(kept, &kept_file) != 0)
        return 0;
    errno = EIO; /* unless it tells */
    return statm_read_from(kept);
}

/* The process's own is empty once its first thread has ended; then it is the calling thread's, for as long as there is
 * one. What tells nothing any more makes room first, so that there is a descriptor for the next. */
static size_t statm_read_anew(void)
{
    keep_none();
    size_t bytes = statm_keep("/proc/self/statm");
    if (bytes == 0 && kept != NONE) {
        keep_none();
        bytes = statm_keep("/proc/thread-self/statm");
    }
    return bytes;
}

static size_t read_resident(void)
{
    sti_real_mutex_lock(&reading);
    size_t bytes = descriptor_is_ours(kept) ? statm_read_from(kept) : 0;
    if (bytes == 0)
        bytes = statm_read_anew();
    int error = errno;
    sti_real_mutex_unlock(&reading);
    errno = error;
    return bytes;
}

int sti_resident_begin(void)
{
    return read_resident() > 0 ? 0 : errno;
}

size_t sti_resident(void)
{
    int saved_errno = errno;
    size_t bytes = read_resident();
    if (bytes == 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        bytes = (size_t)usage.ru_maxrss * 1024;
    }
    errno = saved_errno;
    return bytes;
}

/* --- The last threads. --- */

static atomic_uint services; /* relaxed: a thread that sees too few looks again */

int sti_service_start(pthread_t *id, void *(*function)(void *arg))
{
    sti_process_note_use();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add_explicit(&services, 1, memory_order_relaxed);
    int error = sti_thread_start(id, NULL, function, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        sti_service_end();
    return error;
}

void sti_service_end(void)
{
    atomic_fetch_sub_explicit(&services, 1, memory_order_relaxed);
}

unsigned sti_process_own_threads(void)
{
    return atomic_load_explicit(&services, memory_order_relaxed);
}

unsigned sti_process_threads(void)
{
    unsigned count = sti_process_count_threads();
    for (int patience = 100; count > 1 + sti_process_own_threads() && patience > 0; patience--) {
        sti_thread_nap(1000000);
        count = sti_process_count_threads();
    }
    unsigned own = sti_process_own_threads();
    return count > own ? count - own : count;
}

/* What is kept is renewed at once: the child may be about to change the root, and see no /proc any more. */
STI_FORK_HANDLER void sti_system_in_child(void)
{
    if (sti_process_is_partial())
        return;
    if (kept != NONE)
        statm_read_anew();
    STI_SET_IN_CHILD(services, 0);
}

/* In its name the system answers no more. */
bool sti_main_thread_has_ended(void)
{
    char byte = 0;
    const struct iovec memory = { .iov_base = &byte, .iov_len = 1 };
    return process_vm_readv(getpid(), &memory, 1, &memory, 1, 0) < 0 && errno == ESRCH;
}

/* The main thread is counted. */
bool sti_services_are_alone(void)
{
    return sti_main_thread_has_ended() && sti_process_count_threads() == 1 + sti_process_own_threads();
}
