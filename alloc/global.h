/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process, from the inside. */
#ifndef STI_ALLOC_GLOBAL_H
#define STI_ALLOC_GLOBAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/global.h>

struct sti_thread;

/* 0: none. */
extern atomic_size_t sti_global_limit;

static inline bool sti_global_is_limited(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_global_limit, memory_order_relaxed) != 0, 0);
}

/* Calling thread, in a sample point: look if it is time, and say after how many bytes to look again. */
uint64_t sti_global_look(struct sti_thread *thread);

/* Any thread: whether the process holds more than seven eighths of its limit while some task runs. */
bool sti_global_is_near(void);

/* A scope that is in no other opens; and it has ended. If it was the victim, there is room again, and the user is told.
 * Another may go on, when the one that ended was detached from it. */
void sti_global_begin_task(struct sti_thread *thread, uint64_t start);
void sti_global_end_task(struct sti_thread *thread, const char *task, bool another_goes_on);

#endif
