/* SPDX-License-Identifier: MIT
 *
 * Control groups for a wall's children: of version 2, or of the memory and pids hierarchies of version 1. In the
 * program; any thread, but one at a time for each group. */
#ifndef STI_EXECUTOR_WALL_GROUP_H
#define STI_EXECUTOR_WALL_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* A folder in each hierarchy that is used. */
#define STI_WALL_GROUP_FDS 2

/* A group for one child after the other, below config->cgroup, with the limits of config. NULL with errno: it cannot be
 * made, and what was made of it has been removed. ENOTSUP: config->cgroup is no folder of a control group hierarchy
 * with memory or processes to limit, or processes are to be limited and are not in it. */
struct sti_wall_group;
struct sti_wall_group *sti_wall_group_make(const struct sti_wall_config *config);

/* The descriptors to which the child writes "0" to get into the group: their number, 1 or 2. The limits are the
 * group's. */
size_t sti_wall_group_fds(const struct sti_wall_group *group, int fds[STI_WALL_GROUP_FDS]);

/* Whether a process of the group was killed for want of memory since this was last asked. */
bool sti_wall_group_ran_out(struct sti_wall_group *group);

/* In the child of a fork(2) of the program: only its descriptors are closed. */
void sti_wall_group_close_in_fork(struct sti_wall_group *group);

/* Kill all that is in the group, and remove it: that takes a moment while something still ends there, a second at most;
 * then the empty folder is left. NULL does nothing. */
void sti_wall_group_end(struct sti_wall_group *group);

#endif
