/* SPDX-License-Identifier: MIT
 *
 * What a worker's thread has: a name, a stack of known bounds, answers for those who ask what it is doing, and somebody
 * to lend its place to while it sleeps; see thread.h. The worker's own thread only. */
#include "thread.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/stack.h"
#include "executor/pool/pool_state.h"
#include "substitute.h"

bool sti_worker_has_stack(const struct sti_worker *worker, size_t size)
{
    uintptr_t left = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)worker->stack;
    return worker->stack == NULL || (left >= size && left < worker->stack_size);
}

static void find_stack(struct sti_worker *worker)
{
    pthread_attr_t attributes;
    void *lowest;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &lowest, &worker->stack_size) == 0)
        worker->stack = lowest;
    pthread_attr_destroy(&attributes);
}

static void fall_asleep(void)
{
    if (sti_worker_own != NULL)
        sti_substitute_fall_asleep(sti_worker_own, NULL);
}

static void be_awake(void)
{
    if (sti_worker_own != NULL)
        sti_substitute_awake(sti_worker_own, NULL);
}

/* In a signal's handler. A frame lies in that of the function that runs its task, above all that the task calls. */
static size_t list_tasks(struct sti_ask_task *tasks, size_t max)
{
    size_t count = 0;
    const struct sti_frame *frame = sti_worker_own != NULL ? sti_worker_frame(sti_worker_own) : NULL;
    for (; frame != NULL && count < max; frame = frame->below)
        tasks[count++] = (struct sti_ask_task){ .task = frame->stolen ? NULL : frame->task, .top = (uintptr_t)frame };
    return count;
}

static void begin_to_answer(struct sti_worker *worker)
{
    struct sti_ask *ask = &worker->ask;
    ask->stack = (uintptr_t)worker->stack;
    ask->stack_end = worker->stack != NULL ? ask->stack + worker->stack_size : 0;
    ask->list = list_tasks;
    sti_ask_begin(ask);
}

void sti_worker_begin(struct sti_worker *worker)
{
    static const struct sti_lender lender = { .falls_asleep = fall_asleep, .is_awake = be_awake };
    char name[STI_THREAD_NAME_SIZE + sizeof "/2047"];
    snprintf(name, sizeof name, "%s/%u", worker->pool->name, worker->index);
    name[STI_THREAD_NAME_SIZE - 1] = '\0';
    pthread_setname_np(pthread_self(), name);
    find_stack(worker);
    sti_stack_is_workers();
    begin_to_answer(worker);
    sti_blocking_set_lender(&lender);
    sti_worker_own = worker;
}
