/* SPDX-License-Identifier: MIT
 *
 * A moment's rest, for a thread that expects what it waits for at any moment and would lose more by sleeping. Any
 * thread. Every second rest gives the processor up: on a busy machine, what the thread waits for may be the work of
 * another that has to run on the same one. Resting without that made a round trip of submit and wait there six times as
 * long. */
#ifndef STI_EXECUTOR_REST_H
#define STI_EXECUTOR_REST_H

#include <ck_pr.h>
#include <sched.h>

#define STI_REST_STALLS 8

static inline void sti_rest(unsigned round)
{
    if (round % 2 == 1) {
        sched_yield();
        return;
    }
    for (int i = 0; i < STI_REST_STALLS; i++)
        ck_pr_stall();
}

#endif
