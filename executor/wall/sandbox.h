/* SPDX-License-Identifier: MIT
 *
 * The sandbox of a wall's processes: what the kernel lets them do (system_calls.h, child_calls.h, paths.h), and how
 * much it lets them take (limits.h, group.h). Each function says which process calls it; in the template and in a child
 * there is one thread.
 *
 *                   CLOSED                                          OPEN
 *     template      limits, PR_SET_NO_NEW_PRIVS, Landlock,          limits, PR_SET_NO_NEW_PRIVS, the
 *                   the list of system calls, the filter's rules    filter's rules if there is one
 *     child         its group, limits, and a filter: no new process where options.processes is 0, no session or
 *                   process group of its own; CLOSED: no signal to others, and nothing of what the template
 * needs */
#ifndef STI_EXECUTOR_WALL_SANDBOX_H
#define STI_EXECUTOR_WALL_SANDBOX_H

#include <stddef.h>

#include "config.h"

/* In the program, before anything is forked: can this kernel and this build do what the wall asks for? 0; ENOTSUP, or
 * what the making of a control group has failed with, and a sentence in message, which may be NULL, that says what is
 * missing and what to do. Any thread. */
int sti_sandbox_check(const struct sti_wall_config *config, char *message, size_t size);

/* In the template, after its setup, and once: close the sandbox for it and all its children. What the template itself
 * still needs stays open: fork, pidfd_open, pidfd_send_signal, waitid, kill, sendmsg and recvmsg on the descriptors
 * that it has, and whatever sti_sandbox_enter_child calls. The process can make no sockets, and open no files but those
 * of the paths. 0, or an errno value and a sentence: ENOENT, a path is not there; what the filter has returned. */
int sti_sandbox_close(const struct sti_wall_config *config, char *message, size_t size);

/* In a child, before its first task, and once: its control group, limits of resources, and the filter for what only the
 * template needs. groups: the group's descriptors (sti_wall_group_fds), none where count is 0. Quick: it is part of
 * what a fresh child costs. 0 or an errno value. */
int sti_sandbox_enter_child(const struct sti_wall_config *config, const int *groups, size_t count);

#endif
