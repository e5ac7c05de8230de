/* SPDX-License-Identifier: MIT
 *
 * Before it calls a limit passed, the library gives a task's other threads some time to be measured: it yields, then
 * sleeps a few times. These stand in the place of libc's, so that the result does not depend on the machine's mood:
 * each of those sleeps is twice as long as the one before, up to a second. */
#ifndef STINT_TESTS_PATIENCE_H
#define STINT_TESTS_PATIENCE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_bool is_patient;
static _Thread_local unsigned sleeps;

int sched_yield(void)
{
    sleeps = 0;
    return (int)syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    struct timespec time = *wanted;
    if (atomic_load(&is_patient) && time.tv_sec == 0) {
        uint64_t ns = (uint64_t)time.tv_nsec << sleeps;
        time.tv_nsec = (long)(ns < 999999999 ? ns : 999999999);
        sleeps += sleeps < 14;
    }
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, left);
}

#endif
