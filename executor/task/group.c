/* SPDX-License-Identifier: MIT
 *
 * Groups. Any thread.
 *
 * Each member has a record that follows it; those that have not resolved are in a list, under the group's lock. The one
 * that leaves it empty resolves the future of the next idleness, if anybody has asked for one. The future is a compound
 * of nothing, which resolves by hand; it knows the group until then, for the search for circles of waits
 * (compound.h). */
#include <errno.h>
#include <stdatomic.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <sys/queue.h>

#include "alloc/meter/allocate.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "compound.h"
#include "continuation.h"
#include "executor/base/hooks.h"
#include "task.h"

struct member {
    struct sti_continuation continuation;
    stint_group *group;
    TAILQ_ENTRY(member) link; /* under the lock */
};
TAILQ_HEAD(members, member);

/* In the block of its future, behind it. */
struct idleness {
    struct sti_compound *future;
    stint_group *group; /* under the future's lock (continuation.h); NULL: none, or it has resolved */
};

#define IDLENESS_SIZE (sizeof(struct sti_compound) + sizeof(struct idleness))

struct stint_group {
    atomic_uint references; /* the owner's, and each member's that has not resolved */
    pthread_mutex_t lock;
    struct members members; /* the oldest first */
    struct idleness *idle;  /* NULL: nobody has asked */
    stint_outcome outcome;
    sti_task *failed; /* whose payload is in the outcome; retained; or NULL */
};

int stint_group_create(stint_group **group)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (group == NULL)
        return EINVAL;
    stint_group *created =
        sti_record_charge(sizeof *created, STI_CALLER()) ? sti_process_calloc(1, sizeof *created) : NULL;
    if (created == NULL)
        return ENOMEM;
    atomic_init(&created->references, 1);
    pthread_mutex_init(&created->lock, NULL);
    TAILQ_INIT(&created->members);
    *group = created;
    return 0;
}

void stint_group_release(stint_group *group)
{
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with the group before it frees it. */
    if (group == NULL || atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) > 1)
        return;
    if (group->failed != NULL)
        sti_task_release(group->failed);
    pthread_mutex_destroy(&group->lock);
    sti_process_free(group);
}

/* --- Members ------------------------------------------------------------------------------------------------------ */

static void note_outcome(stint_group *group, sti_task *task)
{
    const stint_outcome *outcome = &task->outcome;
    sti_compound_add_usage(&group->outcome.usage, &outcome->usage);
    if (group->outcome.status != STINT_OK || outcome->status == STINT_OK)
        return;
    stint_usage sum = group->outcome.usage;
    group->outcome = *outcome;
    group->outcome.usage = sum;
    sti_task_retain(task);
    group->failed = task;
}

static void resolve_idle(struct idleness *idle, const stint_outcome *outcome)
{
    sti_task *future = &idle->future->future;
    sti_continuation_lock(future);
    idle->group = NULL;
    sti_continuation_unlock(future);
    future->outcome = *outcome;
    sti_task_resolve(future);
    sti_task_release(future);
}

static void group_member_resolved(struct sti_continuation *continuation)
{
    struct member *member = (struct member *)continuation;
    stint_group *group = member->group;
    struct idleness *idle = NULL;
    stint_outcome outcome;
    sti_real_mutex_lock(&group->lock);
    note_outcome(group, continuation->task);
    TAILQ_REMOVE(&group->members, member, link);
    if (TAILQ_EMPTY(&group->members)) {
        idle = group->idle;
        group->idle = NULL;
        outcome = group->outcome;
    }
    sti_real_mutex_unlock(&group->lock);
    sti_process_free(member);
    if (idle != NULL)
        resolve_idle(idle, &outcome);
    stint_group_release(group);
}

static void group_add(stint_group *group, struct member *member, stint_future *future)
{
    atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
    member->group = group;
    member->continuation.task = future;
    member->continuation.run = group_member_resolved;
    sti_real_mutex_lock(&group->lock);
    TAILQ_INSERT_TAIL(&group->members, member, link);
    bool awaited = group->idle != NULL;
    sti_real_mutex_unlock(&group->lock);
    sti_continuation_add(&member->continuation);
    if (awaited)
        sti_above.look_again(); /* this may close a circle */
}

int stint_group_add(stint_group *group, stint_future *future)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (group == NULL || future == NULL)
        return EINVAL;
    struct member *member = sti_record_charge(sizeof *member, STI_CALLER()) ? sti_process_malloc(sizeof *member) : NULL;
    if (member == NULL)
        return ENOMEM;
    group_add(group, member, future);
    return 0;
}

/* A task that ends before it is added has not been one of an idle group: it is added as one that has resolved. */
int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_future *future;
    if (group == NULL)
        return EINVAL;
    struct member *member = sti_record_charge(sizeof *member, STI_CALLER()) ? sti_process_malloc(sizeof *member) : NULL;
    if (member == NULL)
        return ENOMEM;
    stint_mask(); /* the submission may be where a task is interrupted */
    int error = stint_submit(pool, fn, arg, options, &future);
    if (error == 0) {
        group_add(group, member, future);
        stint_future_release(future);
    } else {
        sti_process_free(member);
    }
    stint_unmask();
    return error;
}

/* --- Idleness ----------------------------------------------------------------------------------------------------- */

static struct idleness *idleness_of(struct sti_compound *compound)
{
    return (struct idleness *)(void *)compound->members;
}

static stint_group *find_group(struct sti_compound *compound)
{
    sti_continuation_lock(&compound->future);
    stint_group *group = idleness_of(compound)->group;
    if (group != NULL)
        atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
    sti_continuation_unlock(&compound->future);
    return group;
}

/* The members, as many as are ever looked at. */
static sti_task **group_find_awaited(struct sti_compound *compound, size_t *count)
{
    stint_group *group = find_group(compound);
    if (group == NULL)
        return NULL;
    sti_task **awaited = sti_process_malloc(STI_LOOK_FUTURES * sizeof *awaited);
    sti_real_mutex_lock(&group->lock);
    const struct member *member = awaited != NULL ? TAILQ_FIRST(&group->members) : NULL;
    for (; member != NULL && *count < STI_LOOK_FUTURES; member = TAILQ_NEXT(member, link)) {
        sti_task_retain(member->continuation.task);
        awaited[(*count)++] = member->continuation.task;
    }
    sti_real_mutex_unlock(&group->lock);
    stint_group_release(group);
    return awaited;
}

static struct idleness *make_idleness(void)
{
    struct sti_compound *compound = sti_compound_create(false, 0, IDLENESS_SIZE);
    if (compound == NULL)
        return NULL;
    struct idleness *idleness = idleness_of(compound);
    compound->awaited = group_find_awaited;
    idleness->future = compound;
    return idleness;
}

int stint_group_when_idle(stint_group *group, stint_future **idle)
{
    if (idle != NULL)
        *idle = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (group == NULL || idle == NULL)
        return EINVAL;
    struct idleness *made = sti_record_charge(IDLENESS_SIZE, STI_CALLER()) ? make_idleness() : NULL;
    if (made == NULL)
        return ENOMEM;
    *idle = &made->future->future;
    struct idleness *unneeded = NULL;
    stint_outcome outcome;
    sti_real_mutex_lock(&group->lock);
    bool is_idle = TAILQ_EMPTY(&group->members);
    outcome = group->outcome;
    if (!is_idle && group->idle != NULL) {
        unneeded = made;
        *idle = &group->idle->future->future;
    } else if (!is_idle) {
        made->group = group;
        group->idle = made;
    }
    sti_task_retain(*idle);
    sti_real_mutex_unlock(&group->lock);
    if (unneeded != NULL)
        sti_task_release(&unneeded->future->future);
    if (is_idle)
        resolve_idle(made, &outcome);
    return 0;
}

/* Find a task of the group, retained; NULL: the group is idle. The newest task is the one that is most likely not to
 * have been started. */
static sti_task *find_newest(stint_group *group, stint_outcome *outcome)
{
    sti_real_mutex_lock(&group->lock);
    const struct member *newest = TAILQ_LAST(&group->members, members);
    sti_task *task = newest != NULL ? newest->continuation.task : NULL;
    if (task != NULL)
        sti_task_retain(task);
    else if (outcome != NULL)
        *outcome = group->outcome;
    sti_real_mutex_unlock(&group->lock);
    return task;
}

static void group_let_go(void *task)
{
    sti_task_release(task);
}

/* An interrupt may end it. */
static int group_wait_for(sti_task *task, uint64_t deadline_ns)
{
    stint_guard guard;
    stint_guard_push(&guard, group_let_go, task);
    int error = deadline_ns == STI_NEVER ? sti_above.wait(task) : sti_above.wait_until(task, deadline_ns);
    stint_guard_pop(&guard, false);
    return error;
}

static int wait_for_idle(stint_group *group, uint64_t deadline_ns, stint_outcome *outcome)
{
    stint_future *idle;
    int error = stint_group_when_idle(group, &idle);
    if (error != 0)
        return error;
    error = group_wait_for(idle, deadline_ns);
    if (error == 0 && outcome != NULL)
        *outcome = idle->outcome;
    sti_task_release(idle);
    return error;
}

static int group_finish_wait(int error)
{
    if (error == 0)
        stint_checkpoint();
    return error;
}

/* In a task, which can run one after the other of them. */
int stint_group_wait(stint_group *group, stint_outcome *outcome)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    sti_task *task;
    int error = 0;
    if (group == NULL)
        return EINVAL;
    if (sti_worker_current() == NULL)
        return group_finish_wait(wait_for_idle(group, STI_NEVER, outcome));
    while (error == 0 && (task = find_newest(group, outcome)) != NULL) {
        error = group_wait_for(task, STI_NEVER);
        sti_task_release(task);
    }
    return group_finish_wait(error);
}

int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (group == NULL)
        return EINVAL;
    return group_finish_wait(wait_for_idle(group, sti_deadline_after(timeout_ns), outcome));
}

/* --- Cancelling --------------------------------------------------------------------------------------------------- */

/* The oldest goes to the end: so as many as there were are taken once each. */
static sti_task *turn_over(stint_group *group)
{
    sti_task *task = NULL;
    sti_real_mutex_lock(&group->lock);
    struct member *oldest = TAILQ_FIRST(&group->members);
    if (oldest != NULL) {
        TAILQ_REMOVE(&group->members, oldest, link);
        TAILQ_INSERT_TAIL(&group->members, oldest, link);
        task = oldest->continuation.task;
        sti_task_retain(task);
    }
    sti_real_mutex_unlock(&group->lock);
    return task;
}

static size_t count_members(stint_group *group)
{
    size_t count = 0;
    sti_real_mutex_lock(&group->lock);
    const struct member *member;
    TAILQ_FOREACH(member, &group->members, link)
    count++;
    sti_real_mutex_unlock(&group->lock);
    return count;
}

void stint_group_cancel(stint_group *group)
{
    if (sti_process_is_partial() || group == NULL)
        return;
    sti_task *task;
    for (size_t left = count_members(group); left > 0 && (task = turn_over(group)) != NULL; left--) {
        stint_future_cancel(task);
        sti_task_release(task);
    }
}
