/* SPDX-License-Identifier: MIT
 *
 * The file of a program; see program.h. */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS 4 /* a script of a script: as many as Linux follows */

static int look_at(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

int program_find(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    int result = ENOENT;
    if (strchr(name, '/') != NULL) {
        snprintf(path, PATH_MAX, "%s", name);
        return look_at(path);
    }
    for (const char *at = folders != NULL ? folders : "/usr/local/bin:/usr/bin:/bin"; at != NULL;) {
        const char *end = strchrnul(at, ':');
        int length = (int)(end - at);
        snprintf(path, PATH_MAX, "%.*s%s%s", length, at, length > 0 ? "/" : "", name);
        int error = look_at(path);
        if (error == 0)
            return 0;
        if (error == EACCES)
            result = EACCES;
        at = *end == ':' ? end + 1 : NULL;
    }
    return result;
}

static ssize_t read_start(const char *path, char *room, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, room, size - 1);
    if (fd >= 0)
        close(fd);
    room[count > 0 ? count : 0] = '\0';
    return count;
}

/* Into path. False: it is no script. */
static bool follow_script(char path[PATH_MAX])
{
    char start[PATH_MAX];
    if (read_start(path, start, sizeof start) < 2 || memcmp(start, "#!", 2) != 0)
        return false;
    char *rest;
    start[strcspn(start, "\n")] = '\0';
    const char *interpreter = strtok_r(start + 2, " \t", &rest);
    if (interpreter == NULL)
        return false;
    const char *argument = strtok_r(NULL, " \t", &rest);
    const char *name = strrchr(interpreter, '/');
    if (name != NULL && strcmp(name, "/env") == 0 && argument != NULL)
        return program_find(argument, path) == 0;
    snprintf(path, PATH_MAX, "%s", interpreter);
    return true;
}

static bool names_loader(int fd, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr part;
        off_t at = (off_t)(header->e_phoff + i * sizeof part);
        if (pread(fd, &part, sizeof part, at) == (ssize_t)sizeof part && part.p_type == PT_INTERP)
            return true;
    }
    return false;
}

static const char *look_at_binary(int fd)
{
    Elf64_Ehdr header;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL; /* the kernel will say what it is */
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return "it is of 32 bits";
    return names_loader(fd, &header) ? NULL : "it is linked statically";
}

const char *program_why_not_preloaded(const char *path)
{
    char followed[PATH_MAX];
    struct stat status;
    snprintf(followed, sizeof followed, "%s", path);
    for (int i = 0; i < SCRIPTS && follow_script(followed); i++)
        continue;
    if (stat(followed, &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0)
        return "it is set-uid or set-gid";
    if (getxattr(followed, "security.capability", NULL, 0) > 0)
        return "its file has capabilities";
    int fd = open(followed, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return "its file cannot be read";
    const char *why = look_at_binary(fd);
    close(fd);
    return why;
}
