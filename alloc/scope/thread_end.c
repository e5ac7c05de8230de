/* SPDX-License-Identifier: MIT
 *
 * The end of a thread that has a record (thread.h): what it leaves is ended, then the record is handed on. Its
 * thread. */
#include <pthread.h>

#include "alloc/base/reporting.h"
#include "alloc/base/sampling.h"
#include "alloc/base/thread.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/own_forks.h"
#include "alloc/interrupt/stack.h"
#include "alloc/rollback/handle.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/thread_state.h"
#include "subtask.h"

static pthread_key_t record_key;

/* mimalloc may have given up the thread's parts of its heaps already. */
static void end_thread(void *record)
{
    struct sti_thread *thread = record;
    if (!sti_thread_begin_end(thread))
        return;
    sti_share_end_thread(thread);
    sti_handles_end_thread(thread);
    sti_mapped_end_thread(thread);
    sti_heap_end_thread(thread);
    sti_sampling_end_thread(&thread->sampling);
    sti_reporting_end_thread(thread);
    sti_own_forks_end_thread();
    sti_stack_end();
    sti_thread_hand_on(thread);
}

static void have_it_ended(struct sti_thread *thread)
{
    sti_specific_set_plain(record_key, thread);
}

__attribute__((constructor)) static void prepare(void)
{
    if (sti_specific_create_plain(&record_key, end_thread) == 0)
        sti_thread_when_taken(have_it_ended);
}
