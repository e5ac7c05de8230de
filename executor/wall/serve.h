/* SPDX-License-Identifier: MIT
 *
 * A template that is a program of its own: what it is told when it is started. */
#ifndef STI_EXECUTOR_WALL_SERVE_H
#define STI_EXECUTOR_WALL_SERVE_H

#include "config.h"

/* In the environment of the program: the number of its control socket; the lifeline has the next one. */
#define STI_WALL_VARIABLE "STINT_WALL"

/* To the program that has been started, over its control socket. 0 or an errno value. The thread that makes the
 * wall. */
int sti_wall_send_config(int control, const struct sti_wall_config *config);

#endif
