/* SPDX-License-Identifier: MIT
 *
 * What the kernel lets a wall's child take of each resource. One thread, in the process that is named. */
#ifndef STI_EXECUTOR_WALL_LIMITS_H
#define STI_EXECUTOR_WALL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* In the program: may this process give its children as much as config says? 0; ENOTSUP and a sentence. */
int sti_limits_check(const struct sti_wall_config *config, char *message, size_t size);

/* In the program: does RLIMIT_NPROC bind this process's children? The limit does not bind root. */
bool sti_limits_bound_processes(void);

/* The most bytes of address space, and of memory in use, that a child may add to the template's: more than
 * config->memory, so that the meter's limit, which ends a task with a reason, is met before the kernel's. */
size_t sti_limits_address_space(const struct sti_wall_config *config);
size_t sti_limits_in_use(const struct sti_wall_config *config);

/* In the template, while /proc can still be read: those limits that do the template itself no harm; no process that it
 * forks can raise one again, and the kernel ends its children before the program when memory is short. 0; an errno
 * value and a sentence. */
int sti_limits_enter_template(const struct sti_wall_config *config, char *message, size_t size);

/* In the child: those that only a child can have. 0 or an errno value. */
int sti_limits_enter_child(const struct sti_wall_config *config);

#endif
