/* SPDX-License-Identifier: MIT
 *
 * What runs inside a wall: the life of a child, from its fork to its end. In the child, on its one thread. */
#ifndef STI_EXECUTOR_WALL_INSIDE_H
#define STI_EXECUTOR_WALL_INSIDE_H

#include "area.h"
#include "config.h"

/* The functions that a program serves by name; none in a fork of the program that made the wall. */
struct sti_wall_entries {
    const stint_wall_entry *entries;
    size_t count;
};

/* Where the wall's own descriptors lie in all of its processes: behind those that were named. */
static inline int sti_wall_first_own_fd(const struct sti_wall_config *config)
{
    int last = 2;
    for (size_t i = 0; i < config->fd_count; i++)
        last = config->fds[i] > last ? config->fds[i] : last;
    return last + 1;
}

static inline bool sti_wall_is_named(const struct sti_wall_config *config, int fd)
{
    for (size_t i = 0; i < config->fd_count; i++) {
        if (config->fds[i] == fd)
            return true;
    }
    return false;
}

/* Close all descriptors but the standard ones, those that were named, and those from first_own up to end. In the
 * guardian, and in a child. */
void sti_wall_close_others(const struct sti_wall_config *config, int first_own, int end);

/* In the template, after its setup: run a task that does nothing, so that what is made for the first task of a process
 * is made once, and every child has it. 0 or an errno value. */
int sti_inside_prepare(const struct sti_wall_config *config);

/* From here on exit() and quick_exit() end this process and all that are forked from it at once: they would run what
 * the program has registered for its own end. What is registered after this is still run. */
bool sti_inside_exit_at_once(void);

/* In the template, after each fork: give random(3), rand(3) and drand48(3) another seed for the next child, as long as
 * nobody waits for that. No child knows another's. */
void sti_inside_seed(void);

/* Serve tasks on this socket, which is the first of the wall's own descriptors, until the program closes it. Does not
 * return. Between the two comes all that a process of its own needs: seeds, limits, handlers. */
__attribute__((noreturn)) void sti_inside_serve(const struct sti_wall_config *config,
                                                const struct sti_wall_entries *entries, int socket, int area,
                                                const int *groups, unsigned group_count);

#endif
