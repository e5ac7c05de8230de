/* SPDX-License-Identifier: MIT
 *
 * The file of a program, as the loader will find it. Main thread. */
#ifndef RUN_PROGRAM_H
#define RUN_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* The path of the program, as execvp would look for it. 0; ENOENT, EACCES. */
int program_find(const char *name, char path[PATH_MAX]);

/* NULL, or why the loader would not preload anything for it. A script is looked at as its interpreter. */
const char *program_why_not_preloaded(const char *path);

#endif
