/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process: whom to interrupt, and before that what nobody needs and is given back; see global.h.
 * Any thread. */
#include "global.h"

#include <errno.h>
#include <pthread.h>

#include "alloc/base/backend.h"
#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/base/system.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/stack.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/heap.h"
#include "shared_budget.h"

/* --- The limit on the whole process. Running tasks look at what the process holds, each at its own sample points.
 *
 * Who finds it too much chooses a victim, unless one has been chosen lately: since says when, 0 if none is on its way
 * out. To change it is a compare-and-swap, so one thread chooses at a time. Before it does, what nobody needs is given
 * back (global.h), and it looks again: what a task committed and others have freed may still lie with an idle worker.
 * The victim finds its flag at its next sample point, which is requested of it (thread.h: flag, then 0 into the limit),
 * and ends; its thread then gives back what the heap held, and clears since. What is published of a task is for the
 * choice only; a figure that is a little old makes it no worse than late. */

#define SHORTEST_INTERVAL ((size_t)256 << 10)
#define LONGEST_INTERVAL ((size_t)4 << 20)
#define INTERVAL_SHIFT 8
#define VICTIM_PATIENCE_NS UINT64_C(100000000)
#define LONGEST_PATIENCE_NS UINT64_C(1000000000)
#define NEAR_SHIFT 3
#define GROWTH_SHIFT 6 /* a 64th of the limit more: patience ends */

atomic_size_t sti_global_limit;
static _Atomic uint64_t times_set;

static _Atomic stint_victim victim_policy;
static _Atomic uint64_t since;
static atomic_size_t seen; /* when the victim was chosen */

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static stint_global_report_fn *report_function;
static void *report_argument;

int stint_global_set_memory_limit(size_t bytes)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (bytes == STINT_MEMORY_LIMIT_OF_CGROUP)
        bytes = sti_cgroup_memory_limit("");
    int error = bytes != 0 ? sti_resident_begin() : 0;
    if (error != 0)
        return error;
    atomic_store_explicit(&sti_global_limit, bytes, memory_order_seq_cst);
    atomic_fetch_add_explicit(&times_set, 1, memory_order_seq_cst);
    sti_thread_request_samples();
    return 0;
}

size_t stint_global_memory_limit(void)
{
    return atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
}

int stint_global_set_victim(stint_victim victim)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (victim != STINT_VICTIM_LARGEST && victim != STINT_VICTIM_NEWEST && victim != STINT_VICTIM_SELF)
        return EINVAL;
    atomic_store_explicit(&victim_policy, victim, memory_order_relaxed);
    return 0;
}

void stint_global_set_report(stint_global_report_fn *report, void *arg)
{
    if (sti_process_is_partial())
        return;
    pthread_mutex_lock(&report_lock);
    report_function = report;
    report_argument = arg;
    pthread_mutex_unlock(&report_lock);
}

static bool is_better(const struct sti_thread *thread, const struct sti_thread *best, stint_victim policy)
{
    if (best == NULL)
        return true;
    if (policy == STINT_VICTIM_NEWEST)
        return atomic_load_explicit(&thread->started, memory_order_relaxed) >
               atomic_load_explicit(&best->started, memory_order_relaxed);
    return atomic_load_explicit(&thread->held, memory_order_relaxed) >
           atomic_load_explicit(&best->held, memory_order_relaxed);
}

static struct sti_thread *choose(struct sti_thread *self)
{
    stint_victim policy = atomic_load_explicit(&victim_policy, memory_order_relaxed);
    if (policy == STINT_VICTIM_SELF)
        return self;
    struct sti_thread *best = NULL;
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        bool runs = atomic_load_explicit(&thread->started, memory_order_relaxed) != 0;
        if (runs && !atomic_load_explicit(&thread->sacrificed, memory_order_relaxed) && is_better(thread, best, policy))
            best = thread;
    }
    return best;
}

/* A victim may be slow to end because the system does not let it run. */
static bool is_waited_for(uint64_t since_ns, size_t held, size_t limit)
{
    bool grows = held > atomic_load_explicit(&seen, memory_order_relaxed) + (limit >> GROWTH_SHIFT);
    return since_ns < (grows ? VICTIM_PATIENCE_NS : LONGEST_PATIENCE_NS);
}

/* Another has come first, or there is nothing to choose for any more. */
static bool has_room_now(uint64_t before, uint64_t now, size_t *held, size_t limit)
{
    if (!atomic_compare_exchange_strong_explicit(&since, &before, now, memory_order_relaxed, memory_order_relaxed))
        return true;
    atomic_store_explicit(&seen, *held, memory_order_relaxed);
    sti_give_back_all();
    *held = sti_resident();
    if (*held <= limit)
        atomic_store_explicit(&since, 0, memory_order_relaxed);
    return *held <= limit;
}

static void stop(struct sti_thread *victim, size_t held)
{
    atomic_store_explicit(&seen, held, memory_order_relaxed);
    atomic_store_explicit(&victim->sacrificed, true, memory_order_seq_cst);
    sti_thread_request_sample(victim);
    sti_watch_wake(); /* it may be asleep */
}

/* After how many bytes to look again. */
static uint64_t look(struct sti_thread *thread)
{
    size_t limit = atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
    size_t interval = limit >> INTERVAL_SHIFT;
    interval = interval < SHORTEST_INTERVAL  ? SHORTEST_INTERVAL
               : interval > LONGEST_INTERVAL ? LONGEST_INTERVAL
                                             : interval;
    size_t held = limit != 0 ? sti_resident() : 0;
    if (held <= limit)
        return interval;
    uint64_t now = sti_clock_now();
    uint64_t before = atomic_load_explicit(&since, memory_order_relaxed);
    if ((before != 0 && is_waited_for(now - before, held, limit)) || has_room_now(before, now, &held, limit))
        return interval;
    const struct sti_share *share = sti_group_member(thread->scope);
    struct sti_thread *victim = choose(share != NULL ? share->group->thread : thread);
    if (victim != NULL)
        stop(victim, held);
    return interval;
}

/* A limit that is new to the thread is looked at at once. The next look counts from what has been charged: what is
 * asked for now may be refused. And no thread is cancelled in the midst of a malloc. */
void sti_global_look(struct sti_thread *thread, uint64_t after)
{
    uint64_t times = atomic_load_explicit(&times_set, memory_order_relaxed);
    if (after <= thread->global_check && times == thread->global_times_set)
        return;
    thread->global_times_set = times;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    thread->global_check = thread->used + look(thread);
    sti_thread_set_cancellation(cancellation);
}

bool sti_global_is_near(void)
{
    size_t limit = atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
    if (limit == 0 || sti_resident() <= limit - (limit >> NEAR_SHIFT))
        return false;
    const struct sti_thread *thread = sti_thread_first();
    while (thread != NULL && atomic_load_explicit(&thread->started, memory_order_relaxed) == 0)
        thread = thread->next;
    return thread != NULL;
}

void sti_global_begin_task(struct sti_thread *thread, uint64_t start)
{
    atomic_store_explicit(&thread->held, 0, memory_order_relaxed);
    atomic_store_explicit(&thread->sacrificed, false, memory_order_relaxed);
    atomic_store_explicit(&thread->deferral, 0, memory_order_relaxed);
    atomic_store_explicit(&thread->started, start, memory_order_relaxed);
}

static void report(size_t held, const char *task)
{
    pthread_mutex_lock(&report_lock);
    stint_global_report_fn *function = report_function;
    void *argument = report_argument;
    pthread_mutex_unlock(&report_lock);
    if (function == NULL)
        return;
    stint_global_event event = {
        .resident = atomic_load_explicit(&seen, memory_order_relaxed),
        .limit = atomic_load_explicit(&sti_global_limit, memory_order_relaxed),
        .task = task,
        .held = held,
    };
    STI_BOUNDARY_CALLBACK("report", function, &event, argument, NULL);
}

void sti_global_end_task(struct sti_thread *thread, const char *task, bool another_goes_on)
{
    size_t held = atomic_load_explicit(&thread->held, memory_order_relaxed);
    atomic_store_explicit(&thread->started, another_goes_on, memory_order_relaxed); /* as the oldest of all */
    if (!atomic_load_explicit(&thread->sacrificed, memory_order_relaxed))
        return;
    sti_process_collect();
    atomic_store_explicit(&thread->sacrificed, false, memory_order_relaxed);
    atomic_store_explicit(&since, 0, memory_order_relaxed);
    report(held, task);
}

/* --- Giving back what nobody needs. The state is one word: the number of the round, and how many have not
 * answered yet. An answer to a round that is over changes nothing. */

#define ANSWER_PATIENCE_NS UINT64_C(1000000000)
#define ANSWER_NAP_NS 50000
#define ROUND_SHIFT 32

static _Atomic uint64_t state;
static atomic_bool under_way;
static sti_give_back_wake *wake_idle; /* set when the library is loaded */

void sti_give_back_listen(sti_give_back_wake *wake)
{
    wake_idle = wake;
}

bool sti_give_back(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread != NULL)
        sti_heap_give_back(thread);
    sti_stack_give_back();
    sti_process_collect();
    return thread != NULL && thread->retired != NULL;
}

/* Bytes rolled back since free pages were given back. Who passes the limit and sets it to 0 gives back; if another adds
 * in between, that one has passed it too. */
static atomic_size_t rolled_back;

void sti_rolled_back_much(size_t bytes)
{
    size_t sum = atomic_fetch_add_explicit(&rolled_back, bytes, memory_order_relaxed) + bytes;
    if (sum >= STI_ROLLED_BACK_MAX &&
        atomic_compare_exchange_strong_explicit(&rolled_back, &sum, 0, memory_order_relaxed, memory_order_relaxed))
        sti_process_collect();
}

void sti_give_back_count(void)
{
    atomic_fetch_add_explicit(&state, 1, memory_order_relaxed);
}

void sti_give_back_answer(uint32_t round)
{
    uint64_t round_seen = atomic_load_explicit(&state, memory_order_relaxed);
    while (round_seen >> ROUND_SHIFT == round &&
           !atomic_compare_exchange_weak_explicit(&state, &round_seen, round_seen - 1, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static bool all_have_answered(void)
{
    return (uint32_t)atomic_load_explicit(&state, memory_order_acquire) == 0;
}

static void await_answers(void)
{
    uint64_t end = sti_clock_now() + ANSWER_PATIENCE_NS;
    while (!all_have_answered() && sti_clock_now() < end)
        sti_thread_nap(ANSWER_NAP_NS);
}

bool sti_give_back_all(void)
{
    if (atomic_exchange_explicit(&under_way, true, memory_order_acquire))
        return false;
    /* 0 is no round. */
    uint32_t round = (uint32_t)(atomic_load_explicit(&state, memory_order_relaxed) >> ROUND_SHIFT) + 1;
    round += round == 0;
    atomic_store_explicit(&state, (uint64_t)round << ROUND_SHIFT, memory_order_relaxed);
    if (wake_idle != NULL)
        wake_idle(round);
    sti_give_back();
    await_answers();
    atomic_store_explicit(&under_way, false, memory_order_release);
    return true;
}
