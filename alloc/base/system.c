/* SPDX-License-Identifier: MIT
 *
 * What the system says of this process: its control group, how much of it is in memory, and its threads; see system.h.
 * Any thread. */
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "instrumentation.h"
#include "module.h"
#include "process.h"
#include "thread.h"

/* --- The control group of this process. Any thread.
 *
 * /proc/self/cgroup has a line for each hierarchy, "number:controllers:path"; version 2's is "0::path". Where a
 * controller is in neither line of version 1, it is in version 2. /proc/self/mountinfo says where a hierarchy is
 * mounted and which group is that mount's root: in a container often the container's own. See cgroups(7), proc(5). */

#define NO_LIMIT_FROM ((size_t)1 << 62) /* version 1 says so in whole pages of a signed number */
#define KILL_MARGIN_SHIFT 4

/* A text file, line by line. A line that does not fit, of another file system with many options, is left out. */
struct lines {
    int file;
    size_t begin;
    size_t end;
    char buffer[STI_CGROUP_PATH_MAX];
};

static bool open_lines(struct lines *lines, const char *root, const char *path)
{
    char whole[PATH_MAX];
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof whole)
        return false;
    lines->file = open(whole, O_RDONLY | O_CLOEXEC);
    lines->begin = 0;
    lines->end = 0;
    return lines->file >= 0;
}

static bool fill(struct lines *lines)
{
    lines->end -= lines->begin;
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end);
    lines->begin = 0;
    ssize_t count;
    do {
        count = read(lines->file, lines->buffer + lines->end, sizeof lines->buffer - lines->end);
    } while (count < 0 && errno == EINTR);
    lines->end += count > 0 ? (size_t)count : 0;
    return count > 0;
}

/* NULL after the last. */
static char *next_line(struct lines *lines)
{
    bool too_long = false;
    for (;;) {
        char *line = lines->buffer + lines->begin;
        char *end = memchr(line, '\n', lines->end - lines->begin);
        if (end != NULL) {
            *end = '\0';
            lines->begin = (size_t)(end + 1 - lines->buffer);
            if (!too_long)
                return line;
            too_long = false;
            continue;
        }
        if (lines->end - lines->begin == sizeof lines->buffer) {
            too_long = true;
            lines->begin = lines->end;
        }
        if (!fill(lines))
            return NULL;
    }
}

/* Is the word one of a list with commas between? */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* The process's path in the hierarchy, into the group's directory for now. */
static bool find_path(struct sti_cgroup *group, const char *root, const char *controller)
{
    struct lines lines;
    if (!open_lines(&lines, root, "/proc/self/cgroup"))
        return false;
    bool found = false;
    char *line;
    while ((line = next_line(&lines)) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        bool has_it = lists(controllers + 1, controller);
        if (!has_it && strcmp(line, "0:") != 0)
            continue;
        found = true;
        group->unified = !has_it;
        strcpy(group->directory, path);
        if (has_it)
            break;
    }
    close(lines.file);
    return found;
}

/* Spaces and the like are \ooo in mountinfo. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The parts of a line of mountinfo that matter here. */
struct mount {
    char *root;
    char *point;
    char *type;
    char *options;
};

static bool read_mount(char *line, struct mount *mount)
{
    char *rest = strstr(line, " - ");
    if (rest == NULL)
        return false;
    *rest = '\0';
    char *at = NULL;
    char *fields[5];
    for (size_t i = 0; i < 5; i++) {
        fields[i] = strtok_r(i == 0 ? line : NULL, " ", &at);
        if (fields[i] == NULL)
            return false;
    }
    mount->root = fields[3];
    mount->point = fields[4];
    mount->type = strtok_r(rest + 3, " ", &at);
    strtok_r(NULL, " ", &at);
    mount->options = strtok_r(NULL, " ", &at);
    if (mount->options == NULL)
        return false;
    unescape(mount->root);
    unescape(mount->point);
    return true;
}

/* What is left of the path below the mount's root. A path that lies elsewhere can only be guessed at: the mount's
 * own. */
static const char *below(const char *root, const char *path)
{
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool inside = strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return inside && strstr(path, "/..") == NULL && strcmp(path + length, "/") != 0 ? path + length : "";
}

/* Put the mount in front of the path that find_path left. */
static bool place(struct sti_cgroup *group, const char *root, const struct mount *mount)
{
    char path[STI_CGROUP_PATH_MAX];
    strcpy(path, group->directory);
    int length =
        snprintf(group->directory, sizeof group->directory, "%s%s%s", root, mount->point, below(mount->root, path));
    group->top = strlen(root) + strlen(mount->point);
    return length > 0 && (size_t)length < sizeof group->directory;
}

bool sti_cgroup_find(struct sti_cgroup *group, const char *root, const char *controller)
{
    struct lines lines;
    if (!find_path(group, root, controller) || !open_lines(&lines, root, "/proc/self/mountinfo"))
        return false;
    bool found = false;
    char *line;
    while (!found && (line = next_line(&lines)) != NULL) {
        struct mount mount;
        if (!read_mount(line, &mount))
            continue;
        if (group->unified ? strcmp(mount.type, "cgroup2") == 0
                           : strcmp(mount.type, "cgroup") == 0 && lists(mount.options, controller))
            found = place(group, root, &mount);
    }
    close(lines.file);
    return found;
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
    if (length < 0 || (size_t)length >= sizeof path || size == 0)
        return false;
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

/* SIZE_MAX: there is none, "max" in version 2. */
static size_t limit_in(const struct sti_cgroup *group, const char *file)
{
    char text[64];
    if (!sti_cgroup_read(group, file, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return SIZE_MAX;
    size_t limit = strtoull(text, NULL, 10);
    return limit < NO_LIMIT_FROM ? limit : SIZE_MAX;
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t sti_cgroup_memory_limit(const char *root)
{
    struct sti_cgroup group;
    int error = errno;
    size_t limit = SIZE_MAX;
    if (sti_cgroup_find(&group, root, "memory")) {
        do {
            size_t killed = limit_in(&group, group.unified ? "memory.max" : "memory.limit_in_bytes");
            limit = min(limit, killed != SIZE_MAX ? killed - (killed >> KILL_MARGIN_SHIFT) : SIZE_MAX);
            if (group.unified)
                limit = min(limit, limit_in(&group, "memory.high"));
        } while (sti_cgroup_ascend(&group));
    }
    errno = error;
    if (limit == SIZE_MAX)
        return 0;
    return limit > 0 ? limit : 1;
}

/* --- How much of this process is in memory.
 *
 * What is kept is published in three words, of which the descriptor is the last; a reader that sees words of two
 * generations takes its descriptor for another's, and opens one more, which does no harm. The thread that opens one
 * holds the lock, or where another does, does without keeping it. */

#define NONE (-1)
#define FIRST_BEHIND_STANDARD 3

static atomic_int kept = NONE;
static atomic_ulong kept_device;
static atomic_ulong kept_inode; /* the kernel gives it to no other file while this one is open */
static atomic_int kept_by;      /* the process */
static pthread_mutex_t renewing = PTHREAD_MUTEX_INITIALIZER;

static bool is_ours(int descriptor)
{
    struct stat status;
    return descriptor >= 0 && fstat(descriptor, &status) == 0 &&
           status.st_dev == atomic_load_explicit(&kept_device, memory_order_relaxed) &&
           status.st_ino == atomic_load_explicit(&kept_inode, memory_order_relaxed);
}

/* 0: it cannot be read, or is of a thread that has ended. */
static size_t read_from(int descriptor)
{
    char text[128];
    ssize_t length = pread(descriptor, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *pages = strchr(text, ' ');
    return pages != NULL ? strtoul(pages, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static size_t read_kept(void)
{
    int descriptor = atomic_load_explicit(&kept, memory_order_acquire);
    bool is_own = atomic_load_explicit(&kept_by, memory_order_relaxed) == getpid();
    return is_own && is_ours(descriptor) ? read_from(descriptor) : 0;
}

/* The process's own is empty once its first thread has ended; then it is the calling thread's, for as long as there is
 * one. The error is errno. */
static int open_any(size_t *bytes)
{
    static const char *const paths[] = { "/proc/self/statm", "/proc/thread-self/statm" };
    int descriptor = NONE;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && *bytes == 0; i++) {
        if (descriptor >= 0)
            close(descriptor);
        descriptor = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            return NONE;
        *bytes = read_from(descriptor);
    }
    if (*bytes > 0)
        return descriptor;
    close(descriptor);
    errno = EIO;
    return NONE;
}

/* Not where a program expects one of the standard three that it has closed. */
static int moved_up(int descriptor)
{
    if (descriptor >= FIRST_BEHIND_STANDARD)
        return descriptor;
    int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_BEHIND_STANDARD);
    close(descriptor);
    return higher;
}

static void keep(int descriptor)
{
    sti_process_note_use();
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return;
    atomic_store_explicit(&kept_device, status.st_dev, memory_order_relaxed);
    atomic_store_explicit(&kept_inode, status.st_ino, memory_order_relaxed);
    atomic_store_explicit(&kept_by, getpid(), memory_order_relaxed);
    atomic_store_explicit(&kept, descriptor, memory_order_release);
}

/* Under the lock. What is kept and tells nothing any more makes room, so that there is a descriptor for the next. */
static size_t renew(void)
{
    size_t bytes = read_kept();
    if (bytes > 0)
        return bytes;
    int old = atomic_load_explicit(&kept, memory_order_relaxed);
    if (is_ours(old))
        close(old);
    atomic_store_explicit(&kept, NONE, memory_order_relaxed);
    keep(moved_up(open_any(&bytes)));
    return bytes;
}

static size_t read_once(void)
{
    size_t bytes = 0;
    int descriptor = open_any(&bytes);
    if (descriptor >= 0)
        close(descriptor);
    return bytes;
}

static size_t read_any(void)
{
    size_t bytes = read_kept();
    if (bytes > 0)
        return bytes;
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL; /* what is opened here is no task's */
    if (sti_plain_mutex_trylock(&renewing) != 0) {
        bytes = read_once();
    } else {
        bytes = renew();
        int error = errno;
        sti_plain_mutex_unlock(&renewing);
        errno = error;
    }
    sti_thread_counted = counted;
    return bytes;
}

int sti_resident_begin(void)
{
    errno = 0;
    return read_any() > 0 ? 0 : errno != 0 ? errno : EIO;
}

size_t sti_resident(void)
{
    int saved_errno = errno;
    size_t bytes = read_any();
    if (bytes == 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        bytes = (size_t)usage.ru_maxrss * 1024;
    }
    errno = saved_errno;
    return bytes;
}

bool sti_resident_keeps(int descriptor)
{
    return descriptor == atomic_load_explicit(&kept, memory_order_acquire) && is_ours(descriptor);
}

/* --- The last threads. --- */

static atomic_uint services; /* relaxed: who sees too few looks again */

void sti_service_begin(void)
{
    sti_process_note_use();
    atomic_fetch_add_explicit(&services, 1, memory_order_relaxed);
}

void sti_service_end(void)
{
    atomic_fetch_sub_explicit(&services, 1, memory_order_relaxed);
}

unsigned sti_process_own_threads(void)
{
    return atomic_load_explicit(&services, memory_order_relaxed);
}

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    if (threads == NULL)
        return 0;
    while ((entry = readdir(threads)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(threads);
    return count;
}

unsigned sti_process_threads(void)
{
    unsigned count = count_threads();
    for (int patience = 100; count > 1 + STI_TOOL_THREADS + sti_process_own_threads() && patience > 0; patience--) {
        sti_thread_nap(1000000);
        count = count_threads();
    }
    unsigned own = sti_process_own_threads() + STI_TOOL_THREADS;
    return count > own ? count - own : count;
}

/* What is kept is renewed at once: the child may be about to change the root, and see no /proc any more. */
STI_FORK_HANDLER void sti_system_in_child(void)
{
    if (sti_process_is_partial())
        return;
    if (atomic_load_explicit(&kept, memory_order_relaxed) != NONE)
        sti_resident_begin();
    STI_SET_IN_CHILD(services, 0);
}

/* In its name the system answers no more. */
bool sti_main_thread_has_ended(void)
{
    char byte = 0;
    const struct iovec memory = { .iov_base = &byte, .iov_len = 1 };
    return process_vm_readv(getpid(), &memory, 1, &memory, 1, 0) < 0 && errno == ESRCH;
}

/* proc(5). It counts the main thread. */
bool sti_services_are_alone(void)
{
    static const char format[] = ") Z %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u";
    char text[512] = "";
    if (!sti_main_thread_has_ended())
        return false;
    int status = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (status < 0)
        return false;
    ssize_t size = read(status, text, sizeof text - 1);
    close(status);
    text[size > 0 ? size : 0] = '\0';
    const char *behind_name = strrchr(text, ')');
    unsigned threads = 0;
    return behind_name != NULL && sscanf(behind_name, format, &threads) == 1 &&
           threads == 1 + sti_process_own_threads();
}
