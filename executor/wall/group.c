/* SPDX-License-Identifier: MIT
 *
 * Control groups for a wall's children; see group.h and cgroups(7).
 *
 * In version 2 one folder limits both memory and processes. In version 1 each hierarchy has a folder: the one that the
 * wall names, and of the other hierarchy the folder with the same name, if there is one. So at
 * /sys/fs/cgroup/memory/app and /sys/fs/cgroup/pids/app either name stands for both. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "alloc/platform/process.h"
#include "limits.h"

#define FOLDER_MAX (2 * STI_WALL_PATH_SIZE)

/* How often an end is tried, a millisecond apart. */
#define TRIES 1000

struct folder {
    int directory;
    int members; /* cgroup.procs, for writing */
    char path[FOLDER_MAX];
};

struct sti_wall_group {
    bool unified; /* version 2 */
    size_t count;
    struct folder folders[STI_WALL_GROUP_FDS];
    uint64_t killed; /* for want of memory, when it was last asked */
};

/* --- Files of a folder. --- */

static int folder_write_text(const struct folder *folder, const char *name, const char *text)
{
    int file = openat(folder->directory, name, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    int error = write(file, text, strlen(text)) < 0 ? errno : 0;
    close(file);
    return error;
}

static int write_number(const struct folder *folder, const char *name, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    return folder_write_text(folder, name, text);
}

/* As a string, cut to size; empty: it cannot be read. */
static void read_text(const struct folder *folder, const char *name, char *text, size_t size)
{
    int file = openat(folder->directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, size - 1) : -1;
    text[length < 0 ? 0 : length] = '\0';
    if (file >= 0)
        close(file);
}

static bool folder_has(const struct folder *folder, const char *name)
{
    return faccessat(folder->directory, name, F_OK, 0) == 0;
}

/* --- Making. --- */

/* A limit that is no number the kernel takes is none. */
static int limit_memory(const struct folder *folder, bool unified, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return 0;
    int error = write_number(folder, unified ? "memory.max" : "memory.limit_in_bytes", bytes);
    const char *swap = unified ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    if (error == 0 && folder_has(folder, swap))
        error = write_number(folder, swap, unified ? 0 : bytes);
    return error;
}

/* The child itself is one of them. With 0 the filter of system calls refuses all. */
static int limit_processes(const struct folder *folder, unsigned processes)
{
    return write_number(folder, "pids.max", (size_t)processes + 1);
}

static const char *memory_file(bool unified)
{
    return unified ? "memory.max" : "memory.limit_in_bytes";
}

static int limit_folder(const struct folder *folder, bool unified, const struct sti_wall_config *config)
{
    int error = folder_has(folder, memory_file(unified)) ? limit_memory(folder, unified, sti_limits_in_use(config)) : 0;
    return error == 0 && folder_has(folder, "pids.max") ? limit_processes(folder, config->processes) : error;
}

static void close_folder(struct folder *folder)
{
    if (folder->members >= 0)
        close(folder->members);
    if (folder->directory >= 0)
        close(folder->directory);
    folder->members = folder->directory = -1;
}

static int open_folder(struct folder *folder)
{
    folder->members = -1;
    folder->directory = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->directory >= 0)
        folder->members = openat(folder->directory, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (folder->members >= 0)
        return 0;
    int error = errno;
    close_folder(folder);
    return error;
}

/* A delegated folder's groups have the controllers that it hands on. Where it may not, limit_folder finds none. */
static void hand_on_controllers(const char *path)
{
    struct folder above;
    if ((size_t)snprintf(above.path, sizeof above.path, "%s", path) >= sizeof above.path || open_folder(&above) != 0)
        return;
    folder_write_text(&above, "cgroup.subtree_control", "+memory");
    folder_write_text(&above, "cgroup.subtree_control", "+pids");
    close_folder(&above);
}

static int add_folder(struct sti_wall_group *group, const char *above, const struct sti_wall_config *config)
{
    static atomic_uint made;
    struct folder *folder = &group->folders[group->count];
    unsigned number = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    int length = snprintf(folder->path, sizeof folder->path, "%s/stint-%d-%u", above, (int)getpid(), number);
    if ((size_t)length >= sizeof folder->path)
        return ENAMETOOLONG;
    if (mkdir(folder->path, 0755) != 0)
        return errno;
    int error = open_folder(folder);
    if (error != 0) {
        rmdir(folder->path);
        return error;
    }
    group->count++;
    return limit_folder(folder, group->unified, config);
}

/* --- The other hierarchy of version 1: /sys/fs/cgroup/memory/a/b for /sys/fs/cgroup/pids/a/b. --- */

static bool is_mount(const char *path, dev_t below)
{
    struct stat status;
    return stat(path, &status) != 0 || status.st_dev != below;
}

/* How much of the path names where its hierarchy is mounted; 0: it is not known. */
static size_t mount_length(const char *path)
{
    char above[STI_WALL_PATH_SIZE];
    struct stat status;
    strcpy(above, path);
    if (stat(path, &status) != 0)
        return 0;
    for (;;) {
        size_t length = strlen(above);
        char *slash = strrchr(above, '/');
        if (slash == NULL || slash == above)
            return 0;
        *slash = '\0';
        if (is_mount(above, status.st_dev))
            return length;
    }
}

static bool group_find_other(char *other, size_t size, const char *path)
{
    size_t mount = mount_length(path);
    size_t name = mount;
    while (name > 0 && path[name - 1] != '/')
        name--;
    if (name == 0)
        return false;
    bool is_memory = strncmp(path + name, "memory", mount - name) == 0;
    struct statfs there;
    return (size_t)snprintf(other, size, "%.*s%s%s", (int)name, path, is_memory ? "pids" : "memory", path + mount) <
               size &&
           statfs(other, &there) == 0 && there.f_type == CGROUP_SUPER_MAGIC;
}

static bool group_limits(const struct sti_wall_group *group, const char *file)
{
    for (size_t i = 0; i < group->count; i++)
        if (folder_has(&group->folders[i], file))
            return true;
    return false;
}

static int make_folders(struct sti_wall_group *group, const struct sti_wall_config *config)
{
    char path[STI_WALL_PATH_SIZE], other[FOLDER_MAX], resolved[PATH_MAX];
    struct statfs there;
    if (realpath(config->cgroup, resolved) == NULL || statfs(resolved, &there) != 0)
        return errno;
    if ((size_t)snprintf(path, sizeof path, "%s", resolved) >= sizeof path)
        return ENAMETOOLONG;
    group->unified = there.f_type == CGROUP2_SUPER_MAGIC;
    if (!group->unified && there.f_type != CGROUP_SUPER_MAGIC)
        return ENOTSUP;
    if (group->unified)
        hand_on_controllers(path);
    int error = add_folder(group, path, config);
    if (error == 0 && !group->unified && group_find_other(other, sizeof other, path))
        error = add_folder(group, other, config);
    if (error != 0)
        return error;
    bool bounds_processes = group_limits(group, "pids.max");
    return bounds_processes || (config->processes == 0 && group_limits(group, memory_file(group->unified))) ? 0
                                                                                                            : ENOTSUP;
}

struct sti_wall_group *sti_wall_group_make(const struct sti_wall_config *config)
{
    struct sti_wall_group *group = sti_process_calloc(1, sizeof *group);
    int error = group != NULL ? make_folders(group, config) : ENOMEM;
    if (error == 0)
        return group;
    sti_wall_group_end(group);
    errno = error;
    return NULL;
}

size_t sti_wall_group_fds(const struct sti_wall_group *group, int fds[STI_WALL_GROUP_FDS])
{
    for (size_t i = 0; i < group->count; i++)
        fds[i] = group->folders[i].members;
    return group->count;
}

/* --- Asking. --- */

/* The number behind a word at the beginning of a line. */
static uint64_t text_number(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, length) == 0)
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}

bool sti_wall_group_ran_out(struct sti_wall_group *group)
{
    uint64_t killed = 0;
    for (size_t i = 0; i < group->count; i++) {
        char text[1024];
        read_text(&group->folders[i], group->unified ? "memory.events" : "memory.oom_control", text, sizeof text);
        killed += text_number(text, "oom_kill ");
    }
    bool ran_out = killed != group->killed;
    group->killed = killed;
    return ran_out;
}

/* --- Ending. --- */

/* Is the process in the list, a number in each line? */
static bool group_lists(const char *members, long process)
{
    for (const char *line = members; *line != '\0'; line++) {
        char *end;
        if (strtol(line, &end, 10) == process)
            return true;
        line = end;
        if (*line == '\0')
            break;
    }
    return false;
}

/* A number may be another process's by now: it is the group's if the group still has it once it is held. */
static void kill_one(const struct folder *folder, long process)
{
    int held = (int)syscall(SYS_pidfd_open, process, 0);
    if (held < 0)
        return;
    char members[4096];
    read_text(folder, "cgroup.procs", members, sizeof members);
    if (group_lists(members, process))
        syscall(SYS_pidfd_send_signal, held, SIGKILL, NULL, 0);
    close(held);
}

static void kill_all(const struct folder *folder)
{
    if (folder_write_text(folder, "cgroup.kill", "1") == 0)
        return;
    char members[4096];
    read_text(folder, "cgroup.procs", members, sizeof members);
    for (char *line = members; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strchr(line, '\n') == NULL)
            return; /* cut: the next try has the rest */
        kill_one(folder, strtol(line, NULL, 10));
    }
}

static void end_folder(struct folder *folder)
{
    for (unsigned tries = 0; rmdir(folder->path) != 0 && errno == EBUSY && tries < TRIES; tries++) {
        kill_all(folder);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    close_folder(folder);
}

void sti_wall_group_close_in_fork(struct sti_wall_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        close_folder(&group->folders[i]);
}

void sti_wall_group_end(struct sti_wall_group *group)
{
    if (group == NULL)
        return;
    for (size_t i = 0; i < group->count; i++)
        end_folder(&group->folders[i]);
    sti_process_free(group);
}
