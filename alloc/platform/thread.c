/* SPDX-License-Identifier: MIT
 *
 * The records of threads: made, found, handed on, asked for samples. What ends with a thread is scope/share.c's. The
 * protocol is in thread.h. Any thread. */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hooks.h"
#include "link.h"
#include "process.h"

_Thread_local struct sti_thread *sti_thread_metered;
_Thread_local struct sti_thread *sti_thread_counted;

static _Thread_local struct sti_thread *own_record;
static _Thread_local bool changing; /* it is being found, or given up */
static _Thread_local bool known;    /* its end will be told */
static _Thread_local bool over;     /* it was: nobody ends what it begins from now on */
_Atomic(struct sti_thread *) sti_thread_records;

_Alignas(64) _Atomic uint64_t sti_thread_requests = 1; /* on a line that nobody else writes to */

static struct sti_thread *adopt_record(void)
{
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        bool owned = false;
        if (!atomic_load_explicit(&thread->owned, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&thread->owned, &owned, true, memory_order_acquire,
                                                    memory_order_relaxed))
            return thread;
    }
    return NULL;
}

static struct sti_thread *make_record(void)
{
    struct sti_thread *thread = sti_process_lasting_aligned(_Alignof(struct sti_thread), sizeof *thread);
    if (thread == NULL)
        return NULL;
    memset(thread, 0, sizeof *thread);
    thread->used = 1; /* beyond a limit of 0, even with a charge that wrapped round to nothing */
    thread->sampling.next = UINT64_MAX;
    atomic_init(&thread->owned, true);
    thread->next = atomic_load_explicit(&sti_thread_records, memory_order_relaxed);
    /* A thread that finds the record on the list sees it initialised; seq_cst for requests (thread.h). */
    while (!atomic_compare_exchange_weak_explicit(&sti_thread_records, &thread->next, thread, memory_order_seq_cst,
                                                  memory_order_relaxed))
        ;
    return thread;
}

int sti_thread_missing(void)
{
    return sti_process_is_partial() || sti_backend_check() != 0 ? ENOTSUP : ENOMEM;
}

static __attribute__((noinline)) struct sti_thread *first_record(void)
{
    if (sti_process_is_partial() || sti_backend_check() != 0)
        return NULL;
    sti_process_note_use();
    changing = true;
    sti_backend_thread_init();
    struct sti_thread *thread = adopt_record();
    if (thread == NULL)
        thread = make_record();
    if (thread != NULL) {
        thread->id = gettid();
        thread->processor = (struct sti_processor_clock){ 0 };
        own_record = thread;
        sti_hooks.thread_taken(thread);
    }
    changing = false;
    return thread;
}

/* In the child of a fork(2) the calling thread has another id. In part of a process it has no record any more: it is in
 * no scope. */
STI_FORK_HANDLER void sti_thread_in_child(void)
{
    if (sti_process_is_partial()) {
        sti_thread_suspend();
        own_record = NULL;
    } else if (own_record != NULL) {
        own_record->id = gettid();
        own_record->processor = (struct sti_processor_clock){ 0 };
    }
}

bool sti_thread_begin_end(struct sti_thread *thread)
{
    if (own_record != thread)
        return false;
    sti_thread_suspend(); /* were the thread ended inside a task */
    own_record = NULL;
    changing = true;
    over = true;
    return true;
}

void sti_thread_end_unrecorded(void)
{
    over = true;
}

void sti_thread_hand_on(struct sti_thread *thread)
{
    /* release: the next owner acquires, and sees the record as it was left. */
    atomic_store_explicit(&thread->owned, false, memory_order_release);
    changing = false;
}

struct sti_thread *sti_thread_own(void)
{
    return own_record;
}

struct sti_thread *sti_thread_self(void)
{
    struct sti_thread *thread = own_record;
    return __builtin_expect(thread != NULL, 1) ? thread : first_record();
}

static void make_known(void)
{
    known = true;
    sti_hooks.thread_taken(NULL);
}

bool sti_thread_is_known(void)
{
    if (known || own_record != NULL)
        return true;
    make_known();
    return false;
}

void sti_thread_begin(void)
{
    if (sti_process_is_partial())
        return;
    changing = true;
    sti_backend_thread_init();
    make_known();
    changing = false;
}

int sti_thread_start(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg)
{
    struct sti_thread *metered = sti_thread_metered;
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_suspend();
    int error = pthread_create(id, attributes, function, arg);
    sti_thread_metered = metered;
    sti_thread_counted = counted;
    return error;
}

/* Nothing of a task's, which a rollback would put back. */
int sti_thread_set_cancellation(int state)
{
    int before = PTHREAD_CANCEL_ENABLE;
    struct sti_thread *metered = sti_thread_metered;
    sti_thread_metered = NULL;
    pthread_setcancelstate(state, &before);
    sti_thread_metered = metered;
    return before;
}

void sti_thread_nap(long ns)
{
    int saved_errno = errno;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
    sti_thread_set_cancellation(cancellation);
    errno = saved_errno;
}

struct sti_thread *sti_thread_self_if_settled(void)
{
    if (own_record != NULL)
        return changing ? NULL : own_record;
    return changing || over ? NULL : first_record(); /* which part of a process has none of */
}

struct sti_thread *sti_thread_first(void)
{
    return atomic_load_explicit(&sti_thread_records, memory_order_seq_cst);
}

void sti_thread_request_sample(struct sti_thread *thread)
{
    atomic_fetch_add_explicit(&sti_thread_requests, 1, memory_order_seq_cst);
    atomic_store_explicit(&thread->limit, 0, memory_order_seq_cst);
}

void sti_thread_request_samples(void)
{
    atomic_fetch_add_explicit(&sti_thread_requests, 1, memory_order_seq_cst);
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next)
        atomic_store_explicit(&thread->limit, 0, memory_order_seq_cst);
}
