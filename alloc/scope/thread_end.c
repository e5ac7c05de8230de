/* SPDX-License-Identifier: MIT
 *
 * The end of a thread that has a record (thread.h): what it leaves is ended, then the record is handed on. Its
 * thread. */
#include <pthread.h>

#include "alloc/base/backend.h"
#include "alloc/base/process.h"
#include "alloc/base/reporting.h"
#include "alloc/base/sampling.h"
#include "alloc/base/thread.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/own_forks.h"
#include "alloc/interrupt/stack.h"
#include "alloc/rollback/handle.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/retired.h"
#include "alloc/rollback/thread_state.h"
#include "share.h"

static pthread_key_t record_key;
static char unrecorded; /* what stands for the record of a thread that has none */

/* As mimalloc's own destructor does, which has been called already, and may not be again for what was done since; and
 * which a fork(2) does not wait for. */
static void end_in_mimalloc(void)
{
    sti_quiet_enter();
    sti_backend_thread_done();
    sti_quiet_leave();
}

/* mimalloc may have given up the thread's parts of its heaps already. */
static void end_thread(void *record)
{
    struct sti_thread *thread = record;
    if (record == &unrecorded) {
        sti_thread_end_unrecorded();
        return;
    }
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
    end_in_mimalloc();
    sti_retired_hand_over(thread);
    sti_thread_hand_on(thread);
}

static void have_it_ended(struct sti_thread *thread)
{
    sti_specific_set_plain(record_key, thread != NULL ? (void *)thread : &unrecorded);
}

/* libc calls destructors in rounds, and in each by the keys' numbers. Those of the program may run scopes, in the last
 * round too: then ours has to come later. So it is the last of the keys whose values lie in the thread itself. */
#define LAST 31

static bool create_late_key(void)
{
    pthread_key_t keys[LAST + 1];
    size_t count = 0;
    while (count <= LAST && sti_specific_create_plain(&keys[count], end_thread) == 0 && keys[count++] < LAST)
        ;
    if (count == 0)
        return false;
    record_key = keys[--count];
    while (count > 0)
        pthread_key_delete(keys[--count]);
    return true;
}

__attribute__((constructor)) static void prepare(void)
{
    if (create_late_key())
        sti_thread_when_taken(have_it_ended);
}
