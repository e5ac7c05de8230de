/* SPDX-License-Identifier: MIT
 *
 * seccomp: which system calls a wall's template and all its children make. One thread, in the process that is named. */
#ifndef STI_EXECUTOR_WALL_SYSTEM_CALLS_H
#define STI_EXECUTOR_WALL_SYSTEM_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* Was this library built with libseccomp, which makes the templates' filters? */
bool sti_system_calls_are_listed(void);

/* Does the kernel take filters from this process? 0 or an errno value. Any thread. */
int sti_system_calls_check(void);

/* In the template: from now on it and its children get no new privileges, which all that follows needs. 0; an errno
 * value and a sentence. */
int sti_system_calls_give_up_privileges(char *message, size_t size);

/* In the template, as long as it may open every file: load libseccomp, where a filter will be made. 0; an errno value
 * and a sentence. */
int sti_system_calls_prepare(const struct sti_wall_config *config, char *message, size_t size);

/* In the template: load the list of a closed wall, and the rules of config->filter. 0; an errno value and a
 * sentence. */
int sti_system_calls_enter_template(const struct sti_wall_config *config, char *message, size_t size);

#endif
