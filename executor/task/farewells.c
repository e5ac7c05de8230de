/* SPDX-License-Identifier: MIT
 *
 * Farewells: waiting for the callbacks of tasks that ended unstarted; see farewells.h. */
#include "farewells.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/module.h"
#include "alloc/platform/thread.h"
#include "continuation.h"
#include "task.h"

void sti_farewells_init(struct sti_farewells *farewells)
{
    pthread_mutex_init(&farewells->lock, NULL);
    farewells->end = &farewells->first;
}

void sti_farewells_end(struct sti_farewells *farewells)
{
    pthread_mutex_destroy(&farewells->lock);
}

/* Under the lock. */
static void farewell_append(struct sti_farewells *farewells, sti_task *task)
{
    task->next_noted = NULL;
    *farewells->end = task;
    farewells->end = &task->next_noted;
}

static sti_task *farewell_take_first(struct sti_farewells *farewells)
{
    sti_task *task = farewells->first;
    farewells->first = task->next_noted;
    if (farewells->first == NULL)
        farewells->end = &farewells->first;
    return task;
}

/* Of the first two, what is over; the other goes to the end. */
static sti_task *take_settled(struct sti_farewells *farewells)
{
    sti_task *taken = NULL;
    for (int i = 0; i < 2 && farewells->first != NULL; i++) {
        sti_task *task = farewell_take_first(farewells);
        if (sti_continuation_is_settled(task)) {
            task->next_noted = taken;
            taken = task;
        } else {
            farewell_append(farewells, task);
        }
    }
    return taken;
}

static void release_all(sti_task *task)
{
    while (task != NULL) {
        sti_task *next = task->next_noted;
        sti_task_release(task);
        task = next;
    }
}

/* The reference is the note's. */
static void farewell_note(stint_pool *pool, sti_task *task)
{
    struct sti_farewells *farewells = &pool->farewells;
    sti_real_mutex_lock(&farewells->lock);
    sti_task *settled = take_settled(farewells);
    farewell_append(farewells, task);
    sti_real_mutex_unlock(&farewells->lock);
    release_all(settled);
}

void sti_farewell_note(stint_pool *pool, sti_task *task)
{
    sti_task_retain(task);
    farewell_note(pool, task);
}

void sti_farewell_drop(stint_pool *pool, sti_task *task)
{
    if (sti_task_count_unstarted(task, pool->outcomes) && !sti_continuation_is_settled(task))
        farewell_note(pool, task);
    else
        sti_task_release(task);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* On the waiter's stack. */
struct farewell {
    struct sti_continuation continuation;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool done;
};

/* By the thread that has told the others. */
static void farewell_notified(struct sti_continuation *continuation)
{
    struct farewell *farewell = (struct farewell *)continuation;
    sti_real_mutex_lock(&farewell->lock);
    farewell->done = true;
    pthread_cond_signal(&farewell->told);
    sti_real_mutex_unlock(&farewell->lock);
}

static void farewell_await(sti_task *task)
{
    struct farewell farewell = {
        .continuation = { .task = task, .run = farewell_notified },
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .told = PTHREAD_COND_INITIALIZER,
    };
    sti_continuation_add(&farewell.continuation);
    sti_real_mutex_lock(&farewell.lock);
    while (!farewell.done)
        pthread_cond_wait(&farewell.told, &farewell.lock);
    sti_real_mutex_unlock(&farewell.lock);
    pthread_mutex_destroy(&farewell.lock);
    pthread_cond_destroy(&farewell.told);
}

/* What is awaited knows of this frame: a thread that is cancelled here goes on until it has come. */
void sti_farewell_await_all(stint_pool *pool)
{
    sti_task *task = pool->farewells.first;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    while (task != NULL) {
        sti_task *next = task->next_noted;
        farewell_await(task);
        sti_task_release(task);
        task = next;
    }
    sti_thread_set_cancellation(cancellation);
    pool->farewells.first = NULL;
}
