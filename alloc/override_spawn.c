/* SPDX-License-Identifier: MIT
 *
 * Overrides of the calls that start a program, which is to have the signal mask that child.h says. Any thread. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stint/api.h>
#include <sys/types.h>

#include "child.h"
#include "libc_function.h"

typedef int spawn_fn(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

STINT_API spawn_fn posix_spawn;
STINT_API spawn_fn posix_spawnp;

/* Attributes are plain values; a copy of them owns nothing. */
static int with_mask(spawn_fn *plain, pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    posix_spawnattr_t changed;
    short flags = 0;
    sigset_t wanted;
    if (attributes != NULL) {
        changed = *attributes;
        posix_spawnattr_getflags(&changed, &flags);
    } else {
        posix_spawnattr_init(&changed);
    }
    if ((flags & POSIX_SPAWN_SETSIGMASK) != 0)
        posix_spawnattr_getsigmask(&changed, &wanted);
    else
        pthread_sigmask(SIG_SETMASK, NULL, &wanted);
    const sigset_t *mask = sti_child_mask(&wanted);
    if (mask == &wanted)
        return plain(child, program, actions, attributes, arguments, environment);
    posix_spawnattr_setflags(&changed, (short)(flags | POSIX_SPAWN_SETSIGMASK));
    posix_spawnattr_setsigmask(&changed, mask);
    return plain(child, program, actions, &changed, arguments, environment);
}

#define SPAWNING(name)                                                                                                 \
    int name(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,                             \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])                  \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return with_mask(plain, child, program, actions, attributes, arguments, environment);                          \
    }

SPAWNING(posix_spawn)
SPAWNING(posix_spawnp)
