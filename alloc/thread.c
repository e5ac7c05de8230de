/* SPDX-License-Identifier: MIT
 *
 * The records of threads: made, found, handed on, poked. The protocol is in thread.h. Any thread. */
#include "thread.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "heap.h"
#include "process.h"
#include "specific.h"

_Thread_local struct sti_thread *sti_thread_metered;

static _Thread_local struct sti_thread *own_record;
static _Atomic(struct sti_thread *) all_records;
static pthread_key_t exit_key;
static bool exit_key_made;

/* At the thread's end. mimalloc takes the thread's heaps back itself, in a destructor like this one that may have run
 * before, unless its heaps belong to no thread. */
static void hand_on(void *record)
{
    struct sti_thread *thread = record;
    sti_heap_forget(thread);
    sti_thread_metered = NULL; /* were the thread ended inside a task */
    own_record = NULL;
    /* release: the next owner, who acquires, sees the record as it was left. */
    atomic_store_explicit(&thread->owned, false, memory_order_release);
}

__attribute__((constructor)) static void make_exit_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, hand_on) == 0;
}

static struct sti_thread *adopt_record(void)
{
    for (struct sti_thread *thread = atomic_load_explicit(&all_records, memory_order_acquire); thread != NULL;
         thread = thread->next) {
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
    struct sti_thread *thread = sti_process_aligned(_Alignof(struct sti_thread), sizeof *thread);
    if (thread == NULL)
        return NULL;
    memset(thread, 0, sizeof *thread);
    thread->used = 1; /* beyond a limit of 0, even with a charge that wrapped round to nothing */
    atomic_init(&thread->owned, true);
    thread->next = atomic_load_explicit(&all_records, memory_order_relaxed);
    /* release: whoever finds the record on the list sees it initialised. */
    while (!atomic_compare_exchange_weak_explicit(&all_records, &thread->next, thread, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return thread;
}

static __attribute__((noinline)) struct sti_thread *first_record(void)
{
    if (!exit_key_made)
        return NULL;
    sti_backend_thread_init();
    struct sti_thread *thread = adopt_record();
    if (thread == NULL)
        thread = make_record();
    if (thread == NULL)
        return NULL;
    if (sti_specific_set_plain(exit_key, thread) != 0) {
        atomic_store_explicit(&thread->owned, false, memory_order_release);
        return NULL;
    }
    thread->id = gettid();
    own_record = thread;
    return thread;
}

struct sti_thread *sti_thread_self(void)
{
    struct sti_thread *thread = own_record;
    return __builtin_expect(thread != NULL, 1) ? thread : first_record();
}

void sti_thread_poke_all(void)
{
    for (struct sti_thread *thread = atomic_load_explicit(&all_records, memory_order_acquire); thread != NULL;
         thread = thread->next)
        atomic_store_explicit(&thread->limit, 0, memory_order_seq_cst);
}
