/* SPDX-License-Identifier: MIT
 *
 * Threads that a task has started and that are the task's; see joined_thread.h. Each function says whose thread it is
 * for. */
#include "joined_thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/allocate.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/watch.h"
#include "run.h"
#include "share.h"
#include "started_thread.h"
#include "subtask.h"

/* What libc and the kernel have for a thread: its record, the first pages of its stack, the kernel's stack. */
#define OWN_SIZE ((size_t)64 << 10)
#define LOOK_NS 50000

/* --- The life of such a thread. Any thread, under one lock that is held for a few instructions.
 *
 *   STARTING -> RUNS    by the thread, when its scope has opened
 *            -> UNFIT   by the thread, when that could not open; it ends without having called anything
 *   RUNS     -> ENDED   by the thread, when its scope has closed. What is left of it is the destructors of its
 *                       thread-specific values, which may use the task's memory, and free it
 *
 * The changes are counted. A thread that waits for one reads the count under the lock, sees that the change has not
 * come, and sleeps unless the count is another one by then (a futex); the one that makes it adds to the count behind
 * the lock, and wakes. So either the change was there to be seen, or the count has changed.
 *
 * The system keeps each as one that can be joined, whatever the program wants, so that the end of the task can wait for
 * the end of the thread itself. A record leaves the list, and is freed, with the one join that there is:
 *
 *   awaited    somebody is in pthread_join for it, and takes it off when that has succeeded. The task, if it ends
 *              meanwhile, waits until the kernel does not know the thread any more
 *   detached   nobody may join it but the task: at the next start of a thread, or at its end
 *   otherwise  it is the task's at its end: joined if that fails, and left to be joined, without a record, if not
 *
 * The one that has started it waits for the end of STARTING, and nobody else takes the record off before. */

enum state { STARTING, RUNS, UNFIT, ENDED };

struct sti_joined {
    struct sti_joined *next;
    struct sti_joined **link; /* NULL: not on the list */
    struct sti_group *group;  /* NULL: its task has ended */
    struct sti_start start;
    pthread_t id;
    int kernel_id; /* 0: another thread has it, */
    enum state state;
    bool starter_waits;
    bool is_openmp;
    bool detached;
    bool awaited;
    bool is_lost; /* its task has failed: only a join that has begun already may still take it */
    bool is_gone; /* or its id, as it has been joined */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sti_joined *list;
static atomic_size_t count; /* of those on it */
static atomic_uint changes;
static _Thread_local struct sti_joined *own;

static void take_lock(void)
{
    sti_plain_mutex_lock(&lock);
}

static void give_lock(void)
{
    sti_plain_mutex_unlock(&lock);
}

static void put(struct sti_joined *joined)
{
    take_lock();
    joined->next = list;
    joined->link = &list;
    if (list != NULL)
        list->link = &joined->next;
    list = joined;
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    give_lock();
}

/* With the lock. */
static void take_off(struct sti_joined *joined)
{
    if (joined->link == NULL)
        return;
    *joined->link = joined->next;
    if (joined->next != NULL)
        joined->next->link = joined->link;
    joined->link = NULL;
    atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
}

static void discard(struct sti_joined *joined)
{
    take_lock();
    take_off(joined);
    give_lock();
    sti_process_free(joined);
}

static void change(struct sti_joined *joined, enum state state)
{
    take_lock();
    joined->state = state;
    give_lock();
    atomic_fetch_add_explicit(&changes, 1, memory_order_seq_cst);
    syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* With the lock, which is given up meanwhile. */
static void await_change(void)
{
    unsigned seen = atomic_load_explicit(&changes, memory_order_seq_cst);
    give_lock();
    syscall(SYS_futex, &changes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    take_lock();
}

/* With the lock. */
static struct sti_joined *find(pthread_t id)
{
    struct sti_joined *joined = list;
    while (joined != NULL && (joined->state == STARTING || joined->is_gone || !pthread_equal(joined->id, id)))
        joined = joined->next;
    return joined;
}

/* libc gives an id out again as soon as it has joined the thread, and the system its own as soon as that has ended: who
 * joins it may still be about to take the record off. */
void sti_joined_take_ids(pthread_t id, int kernel_id)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return;
    take_lock();
    for (struct sti_joined *joined = list; joined != NULL; joined = joined->next) {
        if (joined->state == ENDED && joined->kernel_id == kernel_id)
            joined->kernel_id = 0;
        if (joined->state == ENDED && pthread_equal(joined->id, id) && (joined->awaited || kernel_id != 0))
            joined->is_gone = true;
    }
    give_lock();
}

/* --- The thread itself. --- */

static int call_function(void *argument, void **value)
{
    *value = sti_start_call(argument);
    return 0;
}

/* The task fails with it; its message is that of the first. */
static void note_thrown(struct sti_scope *scope, struct sti_thrown *thrown)
{
    struct sti_group *group = scope->share->group;
    char message[STINT_MESSAGE_SIZE];
    scope->masks++;
    int error = sti_exception_describe(thrown->exception, message, sizeof message);
    sti_boundary_drop(thrown);
    scope->masks--;
    take_lock();
    if (group->thrown_error == 0) {
        group->thrown_error = error;
        __builtin_memcpy(group->thrown, message, sizeof message);
    }
    give_lock();
    sti_group_trip(group, STINT_REASON_EXCEPTION);
}

/* Code that is left by a jump may have been what others wait for; but what only fails goes on. And libgomp counts on
 * all of its threads. */
static bool is_called(const struct sti_scope *scope)
{
    return own->is_openmp || scope->on_interrupt == STINT_FAIL || sti_group_tripped(scope->share->group) == 0;
}

static void *run(void *argument)
{
    struct sti_joined *joined = argument;
    own = joined;
    sti_joined_take_ids(pthread_self(), gettid());
    sti_thread_begin();
    joined->id = pthread_self();
    joined->kernel_id = gettid();
    struct sti_thread *thread = sti_thread_self();
    struct sti_scope scope;
    scope.frame = (uintptr_t)__builtin_frame_address(0);
    int error = thread != NULL ? sti_subtask_open(thread, &scope, joined->group, OWN_SIZE) : ENOMEM;
    change(joined, error == 0 ? RUNS : UNFIT);
    if (error != 0)
        return NULL;

    struct sti_landed landed = { .returned = false };
    if (is_called(&scope))
        sti_scope_land(&scope, call_function, &joined->start, &landed);
    if (landed.thrown.exception != NULL)
        note_thrown(&scope, &landed.thrown);
    sti_subtask_close(thread, &scope);
    change(joined, ENDED);
    return landed.returned ? landed.value : PTHREAD_CANCELED;
}

void sti_joined_leave(struct sti_scope *scope)
{
    sti_hold_end_regions(&scope->holds);
    sti_subtask_close(scope->thread, scope);
    change(own, ENDED);
}

/* --- Its start. Thread of the task. --- */

static bool is_left(const struct sti_joined *joined, const struct sti_group *group)
{
    return joined->group == group && joined->state == ENDED && joined->detached && !joined->awaited &&
           !joined->starter_waits;
}

/* Those that have ended, which nobody but the task joins. Off the list, as one of their own. */
static struct sti_joined *take_ended(const struct sti_group *group)
{
    struct sti_joined *ended = NULL;
    struct sti_joined *next;
    take_lock();
    for (struct sti_joined *joined = list; joined != NULL; joined = next) {
        next = joined->next;
        if (is_left(joined, group)) {
            take_off(joined);
            joined->next = ended;
            ended = joined;
        }
    }
    give_lock();
    return ended;
}

/* Without a wait: one whose scope has closed calls its thread-specific values' destructors next, which may wait for
 * what the calling thread holds. */
static void join_ended(const struct sti_group *group)
{
    struct sti_joined *joined = take_ended(group);
    while (joined != NULL) {
        struct sti_joined *next = joined->next;
        if (sti_plain_tryjoin(joined->id, NULL) == 0)
            sti_process_free(joined);
        else
            put(joined);
        joined = next;
    }
}

static struct sti_joined *make(struct sti_group *group, const struct sti_start *start, bool is_openmp)
{
    struct sti_joined *joined = sti_process_calloc(1, sizeof *joined);
    if (joined == NULL)
        return NULL;
    joined->group = group;
    joined->start = *start;
    joined->is_openmp = is_openmp;
    joined->starter_waits = true;
    atomic_store_explicit(&group->has_threads, true, memory_order_relaxed);
    return joined;
}

/* Attributes are plain values; a copy of them owns nothing. */
static int create(pthread_t *id, const pthread_attr_t *attributes, struct sti_joined *joined)
{
    if (attributes == NULL)
        return sti_plain_create(id, NULL, run, joined);
    pthread_attr_t changed = *attributes;
    int detached = PTHREAD_CREATE_JOINABLE;
    pthread_attr_getdetachstate(attributes, &detached);
    joined->detached = detached == PTHREAD_CREATE_DETACHED;
    pthread_attr_setdetachstate(&changed, PTHREAD_CREATE_JOINABLE);
    return sti_plain_create(id, &changed, run, joined);
}

static bool has_begun(struct sti_joined *joined)
{
    take_lock();
    while (joined->state == STARTING)
        await_change();
    bool is_fit = joined->state != UNFIT;
    joined->starter_waits = false;
    give_lock();
    return is_fit;
}

static int start_and_wait(pthread_t *id, const pthread_attr_t *attributes, struct sti_joined *joined)
{
    int error = create(id, attributes, joined);
    if (error == 0 && has_begun(joined))
        return 0;
    if (error == 0)
        sti_plain_join(joined->id, NULL);
    discard(joined);
    return error == 0 ? EAGAIN : error;
}

int sti_joined_start(pthread_t *id, const pthread_attr_t *attributes, const struct sti_start *start, const void *caller)
{
    const struct link_map *openmp = sti_openmp_of(caller);
    struct sti_group *group;
    if (!sti_record_charge(OWN_SIZE, caller) || sti_group_open_for_thread(&group, openmp != NULL) != 0)
        return EAGAIN;
    struct sti_joined *joined = make(group, start, openmp != NULL);
    if (joined == NULL)
        return EAGAIN;
    int cancellation =
        sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE); /* what is waited for is not the program's */
    join_ended(group);
    put(joined);
    int error = start_and_wait(id, attributes, joined);
    sti_thread_set_cancellation(cancellation);
    if (error == 0 && openmp != NULL)
        sti_openmp_keeps(openmp);
    return error;
}

/* --- Joins and detaches of the program's. Any thread. --- */

struct sti_joined *sti_joined_begin_join(pthread_t id, int *error)
{
    *error = 0;
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return NULL;
    take_lock();
    struct sti_joined *joined = find(id);
    if (joined != NULL && (joined->detached || joined->awaited)) {
        *error = EINVAL;
        joined = NULL;
    }
    if (joined != NULL)
        joined->awaited = true;
    give_lock();
    return joined;
}

void sti_joined_end_join(struct sti_joined *joined, bool is_joined)
{
    if (is_joined) {
        discard(joined);
        return;
    }
    take_lock();
    joined->awaited = false;
    bool is_left = joined->group == NULL && (joined->is_lost || joined->detached);
    if (is_left)
        take_off(joined);
    give_lock();
    if (is_left) {
        sti_plain_detach(joined->id);
        sti_process_free(joined);
    }
}

bool sti_joined_detach(pthread_t id, int *error)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return false;
    take_lock();
    struct sti_joined *joined = find(id);
    *error = joined != NULL && joined->detached ? EINVAL : 0;
    bool is_left = joined != NULL && joined->group == NULL && !joined->awaited;
    if (is_left)
        take_off(joined);
    else if (joined != NULL)
        joined->detached = true;
    give_lock();
    if (is_left)
        sti_process_free(joined);
    return joined != NULL && !is_left;
}

/* --- The end of the task. Its own thread, in no scope of it any more. --- */

/* With the lock. */
static bool any_runs(const struct sti_group *group)
{
    const struct sti_joined *joined = list;
    while (joined != NULL && (joined->group != group || joined->state == ENDED || joined->state == UNFIT))
        joined = joined->next;
    return joined != NULL;
}

bool sti_joined_await(struct sti_scope *scope, bool failed)
{
    struct sti_group *group = scope->share->group;
    sti_openmp_end();
    if (!atomic_load_explicit(&group->has_threads, memory_order_relaxed))
        return false;
    if (failed)
        sti_group_trip(group, STINT_REASON_FAILED);
    atomic_store_explicit(&group->is_over, true, memory_order_seq_cst);
    sti_watch_wake();
    take_lock();
    while (any_runs(group))
        await_change();
    give_lock();
    return true;
}

static void await_end(int kernel_id)
{
    for (unsigned round = 0; kernel_id != 0 && !sti_process_thread_is_gone(kernel_id); round++) {
        if (round < 16)
            sched_yield();
        else
            sti_thread_nap(LOOK_NS);
    }
}

/* True: there was one. */
static bool end_one(const struct sti_group *group, bool fails)
{
    take_lock();
    struct sti_joined *joined = list;
    while (joined != NULL && joined->group != group)
        joined = joined->next;
    if (joined == NULL) {
        give_lock();
        return false;
    }
    bool is_others = joined->awaited;
    bool joins = !is_others && !joined->is_gone && (fails || joined->detached);
    int kernel_id = joined->kernel_id;
    joined->group = NULL;
    joined->is_lost = fails;
    if (!is_others)
        take_off(joined);
    give_lock();
    if (joins)
        sti_plain_join(joined->id, NULL);
    else
        await_end(kernel_id);
    if (!is_others)
        sti_process_free(joined);
    return true;
}

void sti_joined_reap(struct sti_scope *scope, bool fails)
{
    struct sti_group *group = scope->share->group;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    while (end_one(group, fails))
        ;
    sti_share_adopt(scope);
    sti_thread_set_cancellation(cancellation);
}
