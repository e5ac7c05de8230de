/* SPDX-License-Identifier: MIT
 *
 * The control group of this process. Any thread.
 *
 * /proc/self/cgroup has a line for each hierarchy, "number:controllers:path"; version 2's is "0::path". Where a controller
 * is in neither line of version 1, it is in version 2. /proc/self/mountinfo says where a hierarchy is mounted and which
 * group is that mount's root: in a container often the container's own. See cgroups(7), proc(5). */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT_FROM ((size_t)1 << 62) /* version 1 says so in whole pages of a signed number */
#define KILL_MARGIN_SHIFT 4

/* A text file, line by line. A line that does not fit, of another file system with many options, is left out. */
struct lines {
    int file;
    size_t begin;
    size_t end;
    char buffer[STI_CGROUP_PATH_MOST];
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

/* What is left of the path below the mount's root. A path that lies elsewhere can only be guessed at: the mount's own. */
static const char *below(const char *root, const char *path)
{
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool inside = strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return inside && strstr(path, "/..") == NULL && strcmp(path + length, "/") != 0 ? path + length : "";
}

/* Put the mount in front of the path that find_path left. */
static bool place(struct sti_cgroup *group, const char *root, const struct mount *mount)
{
    char path[STI_CGROUP_PATH_MOST];
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
    char path[STI_CGROUP_PATH_MOST + 64];
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

static size_t least(size_t a, size_t b)
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
            limit = least(limit, killed != SIZE_MAX ? killed - (killed >> KILL_MARGIN_SHIFT) : SIZE_MAX);
            if (group.unified)
                limit = least(limit, limit_in(&group, "memory.high"));
        } while (sti_cgroup_ascend(&group));
    }
    errno = error;
    if (limit == SIZE_MAX)
        return 0;
    return limit > 0 ? limit : 1;
}
