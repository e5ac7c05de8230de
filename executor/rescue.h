/* SPDX-License-Identifier: MIT
 *
 * When every thread of a pool sleeps in a wait, and no spare is left. Somewhere then a task is awaited that nobody has
 * begun: its waiter had no room left on its stack to run it. Some thread that waits for that waiter, over however many
 * others, has: it gets the errand to run the task, on top of its own wait. That is no unrelated work: its wait cannot
 * end before that task has. (The idea is that of leapfrogging: Wagner and Calder 1993.) If no thread has room, or the
 * task has no place in the queue yet, which nobody is there to empty, a waiter is told to give up.
 *
 * Under the lock of the pool's spares, while all of its threads sleep: so what they are running does not change. */
#ifndef STI_EXECUTOR_RESCUE_H
#define STI_EXECUTOR_RESCUE_H

#include <stdatomic.h>
#include <stint/pool.h>

#include "sleeper.h"

/* Find something for one of them to do. */
void sti_rescue(stint_pool *pool);

#endif
