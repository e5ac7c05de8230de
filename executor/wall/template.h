/* SPDX-License-Identifier: MIT
 *
 * The guardian and the template: the processes between the program and the children. In them, on their one thread. */
#ifndef STI_EXECUTOR_WALL_TEMPLATE_H
#define STI_EXECUTOR_WALL_TEMPLATE_H

#include "config.h"
#include "inside.h"

/* Be the guardian of a wall, until the program or the template is gone for good. control and lifeline are descriptors
 * of the calling process: the far end of the control socket, and the end to read of a pipe of which the program has the
 * only end to write. */
__attribute__((noreturn)) void sti_guardian_main(const struct sti_wall_config *config,
                                                 const struct sti_wall_entries *entries, int control, int lifeline);

#endif
