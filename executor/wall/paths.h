/* SPDX-License-Identifier: MIT
 *
 * Landlock: which files a closed wall's processes open, and to which processes they send signals. One thread, in the
 * process that is named. */
#ifndef STI_EXECUTOR_WALL_PATHS_H
#define STI_EXECUTOR_WALL_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* Which version of Landlock the kernel has; 0: none. Any thread. */
int sti_paths_version(void);

/* truncate(2) and O_TRUNC are bounded by the paths, too. */
#define STI_PATHS_TRUNCATES 3

/* Signals can be kept within a group of processes. */
#define STI_PATHS_SCOPES 6

/* In the template, which has PR_SET_NO_NEW_PRIVS: from now on it and its children open no files but those under
 * config->paths, where there are any, and send no signals to others, where the kernel can do that. 0; ENOENT and other
 * errno values and a sentence. */
int sti_paths_enter_template(const struct sti_wall_config *config, char *message, size_t size);

/* In a child that may start processes: from now on it sends signals to itself and to them alone. ENOTSUP: the kernel
 * cannot do that. */
int sti_paths_enter_child(void);

#endif
