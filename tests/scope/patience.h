/* SPDX-License-Identifier: MIT
 *
 * Before it calls a limit passed, the library lets a task's other threads run for some turns. This stands in the place
 * of libc's function for that, so that the result does not depend on the machine's mood: each turn lasts for a while,
 * the next one longer. */
#ifndef STINT_TESTS_PATIENCE_H
#define STINT_TESTS_PATIENCE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool is_patient;
static _Thread_local unsigned turns;

int sched_yield(void)
{
    if (atomic_load(&is_patient) && turns++ % 64 > 2)
        usleep(1000 * (turns % 64));
    return (int)syscall(SYS_sched_yield);
}

#endif
