/* SPDX-License-Identifier: MIT
 *
 * The sandbox of a wall's processes: what the kernel lets them do (seccomp, Landlock), and how much it lets them take
 * (limits of resources, control groups). Each function says which process calls it; in each of them there is one
 * thread, but for the first and the last two. */
#ifndef STI_EXECUTOR_WALL_SANDBOX_H
#define STI_EXECUTOR_WALL_SANDBOX_H

#include <stddef.h>
#include <sys/types.h>

#include "config.h"

/* In the program, before anything is forked: can this kernel and this build do what the wall asks for? 0; ENOTSUP, and
 * a sentence in message that says what is missing and what to do. */
int sti_sandbox_check(const struct sti_wall_config *config, char *message, size_t size);

/* In the template, after its setup: close the sandbox for it and all its children. What the template itself still needs
 * stays open: fork, pidfd_open, waitid, kill of its own children, sendmsg and recvmsg on the descriptors that it has,
 * and whatever sti_sandbox_enter_child calls. 0, or an errno value and a sentence. */
int sti_sandbox_close(const struct sti_wall_config *config, char *message, size_t size);

/* In a child, before its first task: limits of resources, and a filter for what only the template needs (no new process,
 * and no signal to anybody but itself). group: the control group that the child has been given, or -1 (below). Quick:
 * it is part of what a fresh child costs. 0 or an errno value. */
int sti_sandbox_enter_child(const struct sti_wall_config *config, int group);

/* --- Control groups: version 2, or the memory and pids hierarchies of version 1. In the program; any thread. --- */

/* A group for one child after the other. NULL with errno: it cannot be made. */
struct sti_wall_group;
struct sti_wall_group *sti_wall_group_make(const struct sti_wall_config *config);

/* A descriptor to which the child writes "0" to get into the group; it is the group's. */
int sti_wall_group_fd(const struct sti_wall_group *group);

/* Whether a process of the group was killed for want of memory since this was last asked. */
bool sti_wall_group_ran_out(struct sti_wall_group *group);

/* Kill all that is in the group, where that can be done, and remove it. NULL does nothing. */
void sti_wall_group_end(struct sti_wall_group *group);

#endif
