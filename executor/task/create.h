/* SPDX-License-Identifier: MIT
 *
 * Making a task, as a part of the one function that does it most often (submit.c). What is written is what somebody reads
 * before it is written again. Any thread. */
#ifndef STI_EXECUTOR_TASK_CREATE_H
#define STI_EXECUTOR_TASK_CREATE_H

#include <stddef.h>
#include <stint/account.h>
#include <stint/context.h>
#include <string.h>

#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/scope/context.h"
#include "alloc/scope/scope.h"
#include "executor/pool/pools.h"
#include "task.h"

/* Not known to be zeros: or the compiler would write them a word at a time. */
static inline const stint_options *sti_no_limits(void)
{
    static const stint_options none = STINT_OPTIONS_INIT;
    const stint_options *hidden = &none;
    __asm__("" : "+r"(hidden));
    return hidden;
}

/* A NEW task with both its references, in a block of so many bytes, or NULL. thread: sti_thread_metered, whose context is
 * the task's unless it has one of its own. */
static inline __attribute__((always_inline)) sti_task *sti_task_create(size_t size, const stint_pool *pool,
                                                                       stint_fn *fn, void *arg,
                                                                       const stint_options *options,
                                                                       const struct sti_thread *thread)
{
    sti_task *task = sti_process_malloc(size);
    if (__builtin_expect(task == NULL, 0))
        return NULL;
    memset(task, 0, offsetof(sti_task, fn)); /* NEW; nothing follows it */
    atomic_init(&task->references, 2);
    task->fn = fn;
    task->arg = arg;
    task->pool = pool;
    task->submitted_ns = sti_clock_now();
    task->options = options != NULL ? *options : *sti_no_limits();
    task->timer.link = NULL;
    task->generation = sti_pools_generation;
    task->outcome.payload = NULL;
    sti_token_init(&task->token, task->options.token);
    if (__builtin_expect(task->options.account != NULL, 0))
        stint_account_retain(task->options.account);
    if (__builtin_expect(task->options.context != NULL, 0))
        stint_context_retain(task->options.context);
    else if (thread != NULL && __builtin_expect(sti_context_of(thread->scope) != NULL, 0))
        task->options.context = stint_context_retain(sti_context_of(thread->scope));
    return task;
}

#endif
