/* SPDX-License-Identifier: MIT
 *
 * What variables of the environment ask for: a path with the process's number in it; and how an error is told that has
 * no caller to go to. Constructors and destructors of this library. */
#ifndef STI_ALLOC_BASE_ENVIRONMENT_H
#define STI_ALLOC_BASE_ENVIRONMENT_H

/* The path with the process's number in place of each %p, to be freed by free(); NULL: no memory. */
char *sti_environment_path(const char *pattern);

/* One line on standard error. */
void sti_environment_complain(const char *variable, const char *about, const char *what);

#endif
