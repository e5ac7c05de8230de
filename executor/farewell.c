/* SPDX-License-Identifier: MIT
 *
 * Waiting for the callbacks of tasks that ended unstarted; see farewell.h. */
#include "farewell.h"

#include <stddef.h>

#include "alloc/plain_lock.h"
#include "follow.h"
#include "pool_state.h"

void sti_farewells_init(struct sti_farewells *farewells)
{
    pthread_mutex_init(&farewells->lock, NULL);
    farewells->first = NULL;
}

void sti_farewells_end(struct sti_farewells *farewells)
{
    pthread_mutex_destroy(&farewells->lock);
}

/* Of the two oldest, what is over: so there are never many more than are under way. */
static sti_task *take_settled(struct sti_farewells *farewells)
{
    sti_task *taken = NULL;
    sti_task **link = &farewells->first;
    for (int i = 0; i < 2 && *link != NULL; i++) {
        sti_task *task = *link;
        if (!sti_follow_is_settled(task)) {
            link = &task->next_noted;
            continue;
        }
        *link = task->next_noted;
        task->next_noted = taken;
        taken = task;
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
static void note(stint_pool *pool, sti_task *task)
{
    struct sti_farewells *farewells = &pool->farewells;
    sti_plain_mutex_lock(&farewells->lock);
    task->next_noted = farewells->first;
    farewells->first = task;
    sti_task *settled = take_settled(farewells);
    sti_plain_mutex_unlock(&farewells->lock);
    release_all(settled);
}

void sti_farewell_note(stint_pool *pool, sti_task *task)
{
    sti_task_retain(task);
    note(pool, task);
}

void sti_farewell_drop(stint_pool *pool, sti_task *task, struct sti_tally *tally)
{
    if (sti_task_count_unstarted(task, tally) && !sti_follow_is_settled(task))
        note(pool, task);
    else
        sti_task_release(task);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* On the stack of the one who waits. */
struct farewell {
    struct sti_follower follower;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool done;
};

/* By who has told the others. */
static void be_told(struct sti_follower *follower)
{
    struct farewell *farewell = (struct farewell *)follower;
    sti_plain_mutex_lock(&farewell->lock);
    farewell->done = true;
    pthread_cond_signal(&farewell->told);
    sti_plain_mutex_unlock(&farewell->lock);
}

static void await(sti_task *task)
{
    struct farewell farewell = {
        .follower = { .task = task, .run = be_told },
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .told = PTHREAD_COND_INITIALIZER,
    };
    sti_follow(&farewell.follower);
    sti_plain_mutex_lock(&farewell.lock);
    while (!farewell.done)
        pthread_cond_wait(&farewell.told, &farewell.lock);
    sti_plain_mutex_unlock(&farewell.lock);
    pthread_mutex_destroy(&farewell.lock);
    pthread_cond_destroy(&farewell.told);
}

void sti_farewell_await_all(stint_pool *pool)
{
    sti_task *task = pool->farewells.first;
    while (task != NULL) {
        sti_task *next = task->next_noted;
        await(task);
        sti_task_release(task);
        task = next;
    }
    pool->farewells.first = NULL;
}
