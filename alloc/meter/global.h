/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process: the choice of the task to interrupt, and before that the giving back of memory that
 * nothing uses. Any thread. */
#ifndef STI_ALLOC_METER_GLOBAL_H
#define STI_ALLOC_METER_GLOBAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/memory.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- The limit on the whole process, from the inside. --- */

/* 0: none. */
extern atomic_size_t sti_global_limit;

static inline bool sti_global_is_limited(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_global_limit, memory_order_relaxed) != 0, 0);
}

/* Calling thread, in a sample point while there is a limit: look if it is time. */
void sti_global_look(void);

/* Any thread: whether the process holds more than seven eighths of its limit while some task runs. */
bool sti_global_is_near(void);

/* A scope that is in no other opens, with the number after the thread's tasks; and it has ended. If it was the victim,
 * there is room again, and the user is told. What goes on then, where it lay on top of a task: or NULL. */
void sti_global_begin_task(struct sti_thread *thread, uint64_t number, uint64_t start);
void sti_global_end_task(struct sti_thread *thread, const char *task, const struct sti_running *around);

/* Calling thread: others may run on top of its task, which then goes on. */
struct sti_running sti_global_set_aside(const struct sti_thread *thread);
void sti_global_go_on(struct sti_thread *thread, struct sti_running running);

/* What the task with this number holds, in all; it runs on that thread, perhaps below another one. Any thread. */
void sti_global_note_held(struct sti_thread *thread, uint64_t number, size_t bytes);

/* What the task that runs there held when it was last noted; 0: it was not. Any thread. */
size_t sti_global_held(const struct sti_thread *thread);

/* --- Giving back to the system what nobody needs: before somebody is stopped because the process holds too much, and
 * before a task is made to wait for that. A thread's free memory can be given back by that thread only. So threads that
 * sleep with nothing to do are woken for it.
 *
 * The caller wakes the idle ones (through the module that lends threads to tasks, which knows them) and waits until
 * each that has been asked has answered: that it has given back, or that it has found work instead. For a second at
 * most, since the system may not let one run. */

/* Give back what the calling thread has and does not use. True: there will be more when others have freed what its
 * tasks left. */
bool sti_give_back(void);

/* A heap of so many bytes was rolled back. mimalloc would keep what it and those before it have left resident for a
 * second or two, beside what the next ones take; so it goes back at once when there is so much of it. */
#define STI_ROLLED_BACK_MAX ((size_t)64 << 20)
void sti_rolled_back_much(size_t bytes);

static inline void sti_rolled_back(size_t bytes)
{
    if (__builtin_expect(bytes >= STI_ROLLED_BACK_MAX >> 10, 0))
        sti_rolled_back_much(bytes);
}

/* Give back what sti_give_back gives, and what idle threads have. Some milliseconds, or what it takes to give so much
 * back. Any thread; nothing where another thread does it at this moment. */
void sti_give_back_all(void);

/* An idle thread is about to be asked to give back (hooks.h). */
void sti_give_back_count(void);

/* One of the asked threads has given back, or is not idle any more. */
void sti_give_back_answer(void);

#endif
