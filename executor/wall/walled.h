/* SPDX-License-Identifier: MIT
 *
 * The walled task: a task of the wall's own pool, whose run is that of a child. */
#ifndef STI_EXECUTOR_WALL_WALLED_H
#define STI_EXECUTOR_WALL_WALLED_H

#include "executor/base/state.h"

/* The hooks of a wall's own pool, all of whose tasks are walled. */
extern const struct sti_pool_hooks sti_walled_hooks __attribute__((visibility("hidden")));

#endif
