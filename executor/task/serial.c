/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for another one to end: in a serial queue, or after a future. Any thread. */
#include <errno.h>
#include <stdatomic.h>
#include <stint/later.h>
#include <sys/queue.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "continuation.h"
#include "delays.h"
#include "task.h"

/* --- Serial queues. Any thread.
 *
 * A task of a queue is delayed (delays.h) until its turn. Waiting tasks are in the queue's list; the one whose turn has
 * come is current. Each entry follows its task's own end: the end of the current one makes the next one current and
 * starts it, the end of another takes that out of the list. All of it is under the queue's lock, but for the start: if
 * somebody has ended the one that was made current by then, its own end comes later, and passes the turn on. */

struct entry {
    struct sti_delayed delayed;
    struct sti_continuation ended; /* of itself */
    stint_serial *serial;
    TAILQ_ENTRY(entry) link; /* in the queue's list; this and the rest under the lock */
    bool is_queued;
    bool over;
};
TAILQ_HEAD(entries, entry);

struct stint_serial {
    atomic_uint references; /* the owner's and each entry's that has not ended */
    stint_pool *pool;
    size_t max_waiting;
    pthread_mutex_t lock;
    size_t waiting; /* or about to */
    struct entries queue;
    struct entry *current;
};

int stint_serial_create(stint_pool *pool, size_t max_waiting, stint_serial **serial)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (serial == NULL || pool == NULL)
        return EINVAL;
    stint_serial *created =
        sti_record_charge(sizeof *created, STI_CALLER()) ? sti_process_calloc(1, sizeof *created) : NULL;
    if (created == NULL)
        return ENOMEM;
    atomic_init(&created->references, 1);
    created->pool = pool;
    created->max_waiting = max_waiting != 0 ? max_waiting : SIZE_MAX;
    pthread_mutex_init(&created->lock, NULL);
    TAILQ_INIT(&created->queue);
    *serial = created;
    return 0;
}

void stint_serial_release(stint_serial *serial)
{
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with the queue before it frees it. */
    if (serial == NULL || atomic_fetch_sub_explicit(&serial->references, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&serial->lock);
    sti_process_free(serial);
}

/* --- Under the lock ----------------------------------------------------------------------------------------------- */

static void serial_enter(stint_serial *serial, struct entry *entry)
{
    entry->is_queued = true;
    TAILQ_INSERT_TAIL(&serial->queue, entry, link);
}

static void serial_leave(stint_serial *serial, struct entry *entry)
{
    entry->is_queued = false;
    TAILQ_REMOVE(&serial->queue, entry, link);
    serial->waiting--;
}

/* The one to be started, retained; NULL: none. */
static struct entry *pass_turn(stint_serial *serial)
{
    struct entry *entry = TAILQ_FIRST(&serial->queue);
    serial->current = entry;
    if (entry != NULL) {
        serial_leave(serial, entry);
        sti_task_retain(&entry->delayed.task);
    }
    return entry;
}

/* The task that has the turn that the entry waits for. */
static sti_task *find_current(struct sti_delayed *delayed)
{
    const struct entry *entry = (const struct entry *)delayed;
    sti_continuation_lock(&delayed->task);
    stint_serial *serial = entry->serial;
    if (serial != NULL)
        atomic_fetch_add_explicit(&serial->references, 1, memory_order_relaxed);
    sti_continuation_unlock(&delayed->task);
    if (serial == NULL)
        return NULL;
    sti_real_mutex_lock(&serial->lock);
    sti_task *current = serial->current != NULL && serial->current != entry ? &serial->current->delayed.task : NULL;
    if (current != NULL)
        sti_task_retain(current);
    sti_real_mutex_unlock(&serial->lock);
    stint_serial_release(serial);
    return current;
}

/* --- Without it --------------------------------------------------------------------------------------------------- */

static void serial_start(struct entry *entry)
{
    if (entry == NULL)
        return;
    sti_delayed_start(&entry->delayed);
    sti_task_release(&entry->delayed.task);
}

static void serial_turn_has_ended(struct sti_continuation *continuation)
{
    struct entry *entry = (struct entry *)((char *)continuation - offsetof(struct entry, ended));
    stint_serial *serial = entry->serial;
    struct entry *next = NULL;
    sti_real_mutex_lock(&serial->lock);
    entry->over = true;
    if (entry->is_queued)
        serial_leave(serial, entry);
    else if (serial->current == entry)
        next = pass_turn(serial);
    sti_real_mutex_unlock(&serial->lock);
    serial_start(next);
    sti_continuation_lock(&entry->delayed.task);
    entry->serial = NULL;
    sti_continuation_unlock(&entry->delayed.task);
    stint_serial_release(serial);
}

static bool serial_reserve(stint_serial *serial)
{
    sti_real_mutex_lock(&serial->lock);
    bool free = serial->waiting < serial->max_waiting;
    serial->waiting += free;
    sti_real_mutex_unlock(&serial->lock);
    return free;
}

static void give_back_reserved(stint_serial *serial)
{
    sti_real_mutex_lock(&serial->lock);
    serial->waiting--;
    sti_real_mutex_unlock(&serial->lock);
}

/* *made is retained. */
static int serial_make(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                       stint_future **future, struct entry **made)
{
    struct sti_delayed *delayed;
    int error = sti_delayed_create(serial->pool, sizeof(struct entry), fn, arg, options, &delayed);
    if (error != 0)
        return error;
    struct entry *entry = (struct entry *)delayed;
    entry->serial = serial;
    delayed->awaited = find_current;
    entry->ended.task = &delayed->task;
    entry->ended.run = serial_turn_has_ended;
    *made = entry;
    *future = &delayed->task;
    sti_task_retain_unseen(&delayed->task);
    error = sti_delayed_begin(delayed);
    if (error != 0)
        *future = NULL;
    return error;
}

static void serial_take_turn(stint_serial *serial, struct entry *entry)
{
    struct entry *next = NULL;
    sti_real_mutex_lock(&serial->lock);
    if (entry->over)
        serial->waiting--;
    else
        serial_enter(serial, entry);
    if (serial->current == NULL)
        next = pass_turn(serial);
    sti_real_mutex_unlock(&serial->lock);
    serial_start(next);
}

int stint_serial_submit(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                        stint_future **future)
{
    struct entry *entry;
    if (future != NULL)
        *future = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (serial == NULL || future == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof *entry, STI_CALLER()))
        return ENOMEM;
    if (!serial_reserve(serial))
        return EAGAIN;
    int error = serial_make(serial, fn, arg, options, future, &entry);
    if (error != 0) {
        give_back_reserved(serial);
        return error;
    }
    atomic_fetch_add_explicit(&serial->references, 1, memory_order_relaxed);
    sti_continuation_add(&entry->ended);
    serial_take_turn(serial, entry);
    sti_task_release(&entry->delayed.task);
    return 0;
}

/* --- stint_future_then_submit: a task that waits for a future. Any thread.
 *
 * The task follows that future with a record of its own, which has a reference to the task from when it is added until
 * it is run or taken back. The task keeps the future, whose outcome its function gets, until it has ended itself. */

struct next {
    struct sti_delayed delayed;
    struct sti_continuation awaited;
    struct sti_continuation ended; /* of itself */
    stint_next_fn *fn;
    void *arg;
};

STI_CALLING_CODE static int serial_run(void *argument, void **value)
{
    const struct next *next = argument;
    return next->fn(&next->awaited.task->outcome, next->arg, value);
}

static void awaited_has_resolved(struct sti_continuation *continuation)
{
    struct next *next = (struct next *)((char *)continuation - offsetof(struct next, awaited));
    sti_delayed_start(&next->delayed);
    sti_task_release(&next->delayed.task);
}

static void forget_awaited(struct sti_delayed *delayed)
{
    if (sti_continuation_remove(&((struct next *)delayed)->awaited) == 0)
        sti_task_release(&delayed->task);
}

static sti_task *serial_find_awaited(struct sti_delayed *delayed)
{
    sti_continuation_lock(&delayed->task);
    sti_task *awaited = ((const struct next *)delayed)->awaited.task;
    if (awaited != NULL)
        sti_task_retain(awaited);
    sti_continuation_unlock(&delayed->task);
    return awaited;
}

static void first_has_ended(struct sti_continuation *continuation)
{
    struct next *next = (struct next *)((char *)continuation - offsetof(struct next, ended));
    sti_task *awaited = next->awaited.task;
    sti_continuation_lock(&next->delayed.task);
    next->awaited.task = NULL;
    sti_continuation_unlock(&next->delayed.task);
    sti_task_release(awaited);
}

int stint_future_then_submit(stint_future *future, stint_pool *pool, stint_next_fn *fn, void *arg,
                             const stint_options *options, stint_future **next)
{
    struct sti_delayed *delayed;
    if (next != NULL)
        *next = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || fn == NULL || next == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(struct next), STI_CALLER()))
        return ENOMEM;
    int error = sti_delayed_create(pool, sizeof(struct next), serial_run, NULL, options, &delayed);
    if (error != 0)
        return error;
    struct next *made = (struct next *)delayed;
    delayed->task.arg = made;
    delayed->forget = forget_awaited;
    delayed->awaited = serial_find_awaited;
    made->awaited.task = future;
    made->awaited.run = awaited_has_resolved;
    made->ended.task = &delayed->task;
    made->ended.run = first_has_ended;
    made->fn = fn;
    made->arg = arg;
    *next = &delayed->task;
    sti_task_retain_unseen(&delayed->task); /* for awaited */
    sti_task_retain_unseen(&delayed->task); /* for here: it may release itself */
    error = sti_delayed_begin(delayed);
    if (error != 0) {
        *next = NULL;
        return error;
    }
    sti_task_retain(future);
    sti_continuation_add(&made->awaited);
    if (!sti_task_is_delayed(&delayed->task))
        forget_awaited(delayed);        /* ended by another thread before there was anything to forget */
    sti_continuation_add(&made->ended); /* the last, as it gives the awaited future back */
    sti_task_release(&delayed->task);
    return 0;
}
