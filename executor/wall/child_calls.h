/* SPDX-License-Identifier: MIT
 *
 * seccomp: what a child adds to its template's filter. In the child, which has one thread and PR_SET_NO_NEW_PRIVS. */
#ifndef STI_EXECUTOR_WALL_CHILD_CALLS_H
#define STI_EXECUTOR_WALL_CHILD_CALLS_H

#include <stdbool.h>

#include "config.h"

/* From now on what only the template needs is refused: a new process or thread where config->processes is 0, a session
 * or process group of its own, and in a closed wall signals to others, new limits and filters. signals_are_kept:
 * Landlock keeps its signals from others already. 0 or an errno value. */
int sti_child_calls_refuse(const struct sti_wall_config *config, bool signals_are_kept);

#endif
