/* SPDX-License-Identifier: MIT
 *
 * Landlock: which files a closed wall's processes open, and to which processes they send signals; see paths.h, and
 * landlock(7).
 *
 * The kernel's interface is written down here, as the headers that a system has may be older than its kernel. What a
 * kernel does not know it must not be asked for: a right has the number of the version that it came with. */
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refuse.h"

#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446

#define GIVE_VERSION 1U
#define PATH_BENEATH 1

enum { /* rights */
       EXECUTE = 1 << 0,
       WRITE_FILE = 1 << 1,
       READ_FILE = 1 << 2,
       READ_DIR = 1 << 3,
       MAKE_CHAR = 1 << 6,
       MAKE_BLOCK = 1 << 11,
       REFER = 1 << 13,
       TRUNCATE = 1 << 14,
       IOCTL_DEV = 1 << 15,

       RIGHTS_1 = REFER - 1,
       FOR_FILES = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
       READING = READ_FILE | READ_DIR,
       NEVER = EXECUTE | MAKE_CHAR | MAKE_BLOCK,
};

enum { /* scopes */
       ABSTRACT_SOCKETS = 1 << 0,
       SIGNALS = 1 << 1,
};

struct ruleset {
    uint64_t files;
    uint64_t network;
    uint64_t scopes;
};

struct __attribute__((packed)) path_beneath {
    uint64_t allowed;
    int32_t parent;
};

int sti_paths_version(void)
{
    long version = syscall(CREATE_RULESET, NULL, 0, GIVE_VERSION);
    return version > 0 ? (int)version : 0;
}

static uint64_t rights_of(int version)
{
    return (uint64_t)(RIGHTS_1 | (version >= 2 ? REFER : 0) | (version >= STI_PATHS_TRUNCATES ? TRUNCATE : 0) |
                      (version >= 5 ? IOCTL_DEV : 0));
}

/* A descriptor, or -1 with errno. */
static int ruleset_make(uint64_t files, uint64_t scopes)
{
    const struct ruleset ruleset = { .files = files, .scopes = scopes };
    return (int)syscall(CREATE_RULESET, &ruleset, sizeof ruleset, 0);
}

static int ruleset_add(int ruleset, uint64_t handled, const char *path, bool writable)
{
    int opened = open(path, O_PATH | O_CLOEXEC);
    struct stat status;
    if (opened < 0)
        return errno;
    int error = fstat(opened, &status) != 0 ? errno : 0;
    struct path_beneath rule = { .allowed = handled & (uint64_t)(writable ? ~NEVER : READING), .parent = opened };
    if (!S_ISDIR(status.st_mode))
        rule.allowed &= FOR_FILES;
    if (error == 0 && syscall(ADD_RULE, ruleset, PATH_BENEATH, &rule, 0) != 0)
        error = errno;
    close(opened);
    return error;
}

static int ruleset_add_all(int ruleset, uint64_t handled, const struct sti_wall_config *config, char *message,
                           size_t size)
{
    for (size_t i = 0; i < config->path_count; i++) {
        int error = ruleset_add(ruleset, handled, config->paths[i].path, config->paths[i].writable);
        if (error != 0)
            return sti_refuse(error, message, size,
                              "The path %s of options.paths cannot be opened to the children: %s.",
                              config->paths[i].path, strerror(error));
    }
    return 0;
}

static int restrict_by(int ruleset)
{
    return syscall(RESTRICT_SELF, ruleset, 0) == 0 ? 0 : errno;
}

int sti_paths_enter_template(const struct sti_wall_config *config, char *message, size_t size)
{
    int version = sti_paths_version();
    uint64_t files = config->path_count > 0 ? rights_of(version) : 0;
    uint64_t scopes = version >= STI_PATHS_SCOPES ? ABSTRACT_SOCKETS | SIGNALS : 0;
    if (files == 0 && scopes == 0)
        return 0;
    int ruleset = ruleset_make(files, scopes);
    if (ruleset < 0)
        return sti_refuse(errno, message, size, "The kernel refuses a set of Landlock's rules (%s).", strerror(errno));
    int error = ruleset_add_all(ruleset, files, config, message, size);
    if (error == 0 && (error = restrict_by(ruleset)) != 0)
        sti_refuse(error, message, size, "The kernel refuses to restrict the wall by Landlock (%s).", strerror(error));
    close(ruleset);
    return error;
}

int sti_paths_enter_child(void)
{
    int ruleset = ruleset_make(0, SIGNALS);
    if (ruleset < 0)
        return ENOTSUP;
    int error = restrict_by(ruleset);
    close(ruleset);
    return error;
}
