/* SPDX-License-Identifier: MIT
 *
 * Completion queues. Any thread.
 *
 * Completions arrive on a stack without a lock, as resolving a future must not wait for a reader; a reader takes the
 * whole stack at once, turns it round, and hands completions out from there. So nothing is ever popped from the stack
 * one by one.
 *
 *   arrive  push (release); if the stack was empty before, wake: one write to the descriptor
 *   read    under the lock: while the list of those taken is empty, first silence the descriptor, then take the stack
 *           (acquire); hand out from the list; if some are left on it, wake
 *
 * Silence comes before taking: a completion that arrives after the taking finds the stack empty, and wakes after the
 * silence. One that arrived before may wake late, when it has been read already: then the descriptor is readable for
 * nothing once. Nothing can lie on the stack without a wake after the last silence: the first push since the taking
 * wakes.
 *
 * One lock is the readers'. The other is for threads that wake: they must not write to a number that destroy has
 * closed. That lock is taken for the first completion of a batch only, and never by a reader that has just been woken:
 * that reader would take the processor from the waker and then wait for it. The queue's memory goes with the last of:
 * its owner, and the futures that were added and have not resolved. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stint/future.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/meter/allocate.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "completions.h"
#include "continuation.h"
#include "task.h"

struct entry {
    struct sti_continuation continuation;
    struct entry *next;
    stint_completions *queue;
    stint_completion completion;
};

struct stint_completions {
    atomic_uint references;
    _Atomic(struct entry *) arrived; /* newest first */
    pthread_mutex_t lock;
    struct entry *first; /* taken, oldest first; this and the next one under the lock */
    struct entry *lent;  /* read by the last call, with a payload that lives until the next one */
    pthread_mutex_t waking;
    int descriptor; /* written to and closed under waking; -1: closed */
};

/* --- The list ----------------------------------------------------------------------------------------------------- */

static void take_arrived(stint_completions *queue)
{
    struct entry *newest = atomic_exchange_explicit(&queue->arrived, NULL, memory_order_acquire);
    while (newest != NULL) {
        struct entry *next = newest->next;
        newest->next = queue->first;
        queue->first = newest;
        newest = next;
    }
}

static struct entry *completions_take_first(stint_completions *queue)
{
    struct entry *first = queue->first;
    if (first != NULL)
        queue->first = first->next;
    return first;
}

static void entry_end(struct entry *entry)
{
    if (entry->completion.outcome.payload != NULL)
        sti_task_release(entry->completion.future);
    sti_process_free(entry);
}

static void entries_end(struct entry *list)
{
    while (list != NULL) {
        struct entry *next = list->next;
        entry_end(list);
        list = next;
    }
}

static void completions_forget(stint_completions *queue)
{
    struct entry *entry;
    entries_end(queue->lent);
    queue->lent = NULL;
    do {
        while ((entry = completions_take_first(queue)) != NULL)
            entry_end(entry);
        take_arrived(queue);
    } while (queue->first != NULL);
}

static void completions_release(stint_completions *queue)
{
    /* acq_rel: the last one sees all that the others did with the queue before it frees it. */
    if (atomic_fetch_sub_explicit(&queue->references, 1, memory_order_acq_rel) > 1)
        return;
    completions_forget(queue);
    pthread_mutex_destroy(&queue->lock);
    pthread_mutex_destroy(&queue->waking);
    sti_process_free(queue);
}

/* --- The descriptor. A lock is held: so the code calls no function of libc's that is a point of cancellation. --- */

static void completions_wake(stint_completions *queue)
{
    eventfd_t once = 1;
    sti_real_mutex_lock(&queue->waking);
    if (queue->descriptor >= 0)
        syscall(SYS_write, queue->descriptor, &once, sizeof once);
    sti_real_mutex_unlock(&queue->waking);
}

static void completions_silence(stint_completions *queue)
{
    eventfd_t wakes;
    syscall(SYS_read, queue->descriptor, &wakes, sizeof wakes);
}

/* --- Arriving ----------------------------------------------------------------------------------------------------- */

static void completions_arrive(struct sti_continuation *continuation)
{
    struct entry *entry = (struct entry *)continuation;
    stint_completions *queue = entry->queue;
    entry->completion.outcome = continuation->task->outcome;
    if (entry->completion.outcome.payload != NULL) /* it lives as long as the future is referred to */
        sti_task_retain(continuation->task);
    struct entry *before = atomic_load_explicit(&queue->arrived, memory_order_relaxed);
    do {
        entry->next = before;
    } while (!atomic_compare_exchange_weak_explicit(&queue->arrived, &before, entry, memory_order_release,
                                                    memory_order_relaxed));
    if (before == NULL)
        completions_wake(queue);
    completions_release(queue);
}

static int completions_add(stint_completions *queue, stint_future *future, void *data)
{
    struct entry *entry = sti_process_malloc(sizeof *entry);
    if (entry == NULL)
        return ENOMEM;
    entry->continuation.task = future;
    entry->continuation.run = completions_arrive;
    entry->queue = queue;
    entry->completion.future = future;
    entry->completion.data = data;
    atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
    sti_continuation_add(&entry->continuation);
    return 0;
}

int stint_completions_add(stint_completions *queue, stint_future *future, void *data)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (queue == NULL || future == NULL)
        return EINVAL;
    return sti_record_charge(sizeof(struct entry), STI_CALLER()) ? completions_add(queue, future, data) : ENOMEM;
}

int sti_completions_expect(sti_task *task)
{
    int error = completions_add(task->options.completions, task, task->options.data);
    if (error != 0) {
        task->options.completions = NULL;
        sti_task_discard(task);
    }
    return error;
}

int sti_completions_expect_compound(sti_task *task)
{
    return task->options.completions != NULL ? completions_add(task->options.completions, task, task->options.data) : 0;
}

/* Nothing else can have followed it. */
void sti_completions_expect_no_more(sti_task *task)
{
    struct entry *entry = (struct entry *)task->first_continuation;
    stint_completions *queue = entry->queue;
    sti_continuation_remove(&entry->continuation);
    sti_process_free(entry);
    completions_release(queue);
}

/* --- The owner's side --------------------------------------------------------------------------------------------- */

int stint_completions_create(stint_completions **queue)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (queue == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(stint_completions), STI_CALLER()))
        return ENOMEM;
    stint_completions *created = sti_process_malloc(sizeof *created);
    if (created == NULL)
        return ENOMEM;
    created->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (created->descriptor < 0) {
        int error = errno;
        sti_process_free(created);
        return error;
    }
    atomic_init(&created->references, 1);
    atomic_init(&created->arrived, NULL);
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_init(&created->waking, NULL);
    created->first = NULL;
    created->lent = NULL;
    *queue = created;
    return 0;
}

int stint_completions_fd(const stint_completions *queue)
{
    return queue != NULL ? queue->descriptor : -1;
}

/* Once it is silent, it need not be silenced again before something arrives. */
static struct entry *next_entry(stint_completions *queue, bool *is_silent)
{
    if (queue->first == NULL && (!*is_silent || atomic_load_explicit(&queue->arrived, memory_order_relaxed) != NULL)) {
        completions_silence(queue);
        take_arrived(queue);
        *is_silent = true;
    }
    return completions_take_first(queue);
}

int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count)
{
    if (count != NULL)
        *count = 0;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (queue == NULL || count == NULL || (array == NULL && max > 0))
        return EINVAL;
    struct entry *entry;
    bool is_silent = false;
    sti_real_mutex_lock(&queue->lock);
    struct entry *read_before = queue->lent;
    queue->lent = NULL;
    while (*count < max && (entry = next_entry(queue, &is_silent)) != NULL) {
        array[(*count)++] = entry->completion;
        if (entry->completion.outcome.payload == NULL) {
            sti_process_free(entry);
        } else {
            entry->next = queue->lent;
            queue->lent = entry;
        }
    }
    if (queue->first != NULL)
        completions_wake(queue);
    sti_real_mutex_unlock(&queue->lock);
    entries_end(read_before);
    return 0;
}

void stint_completions_destroy(stint_completions *queue)
{
    if (sti_process_is_partial() || queue == NULL)
        return;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE); /* by close */
    sti_real_mutex_lock(&queue->waking);
    close(queue->descriptor);
    queue->descriptor = -1;
    sti_real_mutex_unlock(&queue->waking);
    sti_real_mutex_lock(&queue->lock);
    completions_forget(queue);
    sti_real_mutex_unlock(&queue->lock);
    completions_release(queue);
    sti_thread_set_cancellation(cancellation);
}
