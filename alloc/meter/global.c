/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process: the choice of the task to interrupt, and before that the giving back of memory that
 * nothing uses; see global.h. Any thread. */
#include "global.h"

#include <errno.h>
#include <pthread.h>

#include "alloc/heap/held.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/stack.h"
#include "alloc/interrupt/warning.h"
#include "alloc/interrupt/watch.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/system.h"
#include "alloc/platform/thread.h"

/* --- The limit on the whole process.
 *
 * One thread looks: at a sample point of its task, or before a pool begins one, the thread that finds the time of the
 * next look over moves that on, by a compare-and-swap, and reads what the process holds. The next look is due after
 * 10 ms at most, and before what is left can have been filled; until that is known, after 0.1 ms, so that others look
 * where the system keeps the thread from running.
 *
 * A look that finds too much gives back what nobody needs (global.h), and reads again: what a task committed and others
 * have freed may still lie with an idle worker. If that was not enough, it stops the task that holds most. since says
 * when that began, 0 if no victim is on its way out. The victim finds its number at its next sample point, which is
 * requested of it (thread.h: flag, then 0 into the limit), and ends; its thread then gives back what the heap held, and
 * clears since. Where the chosen task has ended meanwhile, the number is not that of the next one on its thread, and
 * who has chosen it clears since; if the two miss each other, patience ends. What is published of a task is for the
 * choice only; a figure that is a little old makes it no worse than late. */

#define LONGEST_INTERVAL_NS UINT64_C(10000000)
#define SHORTEST_INTERVAL_NS UINT64_C(100000)
#define FILLED_PER_NS 16 /* bytes: more than several threads write to new huge pages */
#define VICTIM_PATIENCE_NS UINT64_C(100000000)
#define LONGEST_PATIENCE_NS UINT64_C(1000000000)
#define NEAR_SHIFT 3
#define GROWTH_SHIFT 6 /* a 64th of the limit more: patience ends */

atomic_size_t sti_global_limit;
static _Atomic uint64_t next_look;
static atomic_size_t resident; /* at the last one */
static _Atomic uint64_t since;
static atomic_uint warn; /* percent; 0: nobody is to be warned */
static atomic_bool warned;
static atomic_size_t seen; /* resident, when the victim was chosen */

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static stint_global_report_fn *report_function;
static void *report_argument;

int stint_global_set_memory_limit(size_t bytes)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    struct sti_cgroup group;
    if (bytes == STINT_MEMORY_LIMIT_OF_CGROUP && !sti_cgroup_find(&group, ""))
        return ENOTSUP;
    if (bytes == STINT_MEMORY_LIMIT_OF_CGROUP)
        bytes = sti_cgroup_memory_limit("");
    int error = bytes != 0 ? sti_resident_begin() : 0;
    if (error != 0)
        return error;
    atomic_store_explicit(&sti_global_limit, bytes, memory_order_seq_cst);
    atomic_store_explicit(&next_look, 0, memory_order_seq_cst);
    sti_thread_request_samples();
    return 0;
}

size_t stint_global_memory_limit(void)
{
    return atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
}

int stint_global_set_warning(unsigned percent)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (percent > 100)
        return EINVAL;
    atomic_store_explicit(&warn, percent, memory_order_relaxed);
    atomic_store_explicit(&warned, false, memory_order_relaxed);
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

/* A tag tells of which task it is: subtasks that others have stolen note it too, also while another task runs on top of
 * theirs. */
#define HELD_BITS 48
#define HELD_MAX ((UINT64_C(1) << HELD_BITS) - 1)

void sti_global_note_held(struct sti_thread *thread, uint64_t number, size_t bytes)
{
    uint64_t held = number << HELD_BITS | (bytes < HELD_MAX ? bytes : HELD_MAX);
    atomic_store_explicit(&thread->held, held, memory_order_relaxed);
}

/* 0: nothing is known of this task. */
static size_t held_by_task(const struct sti_thread *thread, uint64_t number)
{
    uint64_t held = atomic_load_explicit(&thread->held, memory_order_relaxed);
    return held >> HELD_BITS == number << HELD_BITS >> HELD_BITS ? (size_t)(held & HELD_MAX) : 0;
}

static bool runs_task(const struct sti_thread *thread)
{
    return atomic_load_explicit(&thread->started, memory_order_relaxed) != 0;
}

/* acquire: what is read of the thread after the number is not that of a task before. */
static struct sti_thread *victim_find(uint64_t *number)
{
    struct sti_thread *best = NULL;
    size_t most = 0;
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        uint64_t task = atomic_load_explicit(&thread->task, memory_order_acquire);
        if (!runs_task(thread) || task == atomic_load_explicit(&thread->victim, memory_order_relaxed))
            continue;
        size_t held = held_by_task(thread, task);
        if (best == NULL || held > most) {
            best = thread;
            most = held;
            *number = task;
        }
    }
    return best;
}

size_t sti_global_held(const struct sti_thread *thread)
{
    return held_by_task(thread, atomic_load_explicit(&thread->task, memory_order_relaxed));
}

/* A victim may be slow to end because the system does not let it run. */
static bool is_waited_for(uint64_t since_ns, size_t held, size_t limit)
{
    bool grows = held > atomic_load_explicit(&seen, memory_order_relaxed) + (limit >> GROWTH_SHIFT);
    return since_ns < (grows ? VICTIM_PATIENCE_NS : LONGEST_PATIENCE_NS);
}

/* False: it has ended before. */
static bool victim_stop(struct sti_thread *victim, uint64_t number)
{
    atomic_store_explicit(&victim->victim, number, memory_order_seq_cst);
    sti_thread_request_sample(victim);
    sti_watch_wake(); /* it may be asleep */
    return atomic_load_explicit(&victim->task, memory_order_seq_cst) == number && runs_task(victim);
}

/* The clock is read anew, after since: the thread may have been held up, and another has chosen a victim meanwhile. */
static void make_room(size_t held, size_t limit)
{
    uint64_t before = atomic_load_explicit(&since, memory_order_acquire);
    uint64_t now = sti_clock_now();
    if ((before != 0 && is_waited_for(now - before, held, limit)) ||
        !atomic_compare_exchange_strong_explicit(&since, &before, now, memory_order_release, memory_order_relaxed))
        return;
    atomic_store_explicit(&seen, held, memory_order_relaxed);
    sti_give_back_all();
    uint64_t number = 0;
    struct sti_thread *victim = victim_find(&number);
    held = sti_resident(); /* while it runs: a task that begins after another's end is not to blame */
    bool is_too_much = victim != NULL && held > limit;
    if (is_too_much) /* of another one, which is about to be told, what was seen stays */
        atomic_store_explicit(&seen, held, memory_order_relaxed);
    if (!is_too_much || !victim_stop(victim, number))
        atomic_compare_exchange_strong_explicit(&since, &now, 0, memory_order_relaxed, memory_order_relaxed);
}

static uint64_t until_next_look(size_t held, size_t limit)
{
    uint64_t ns = held < limit ? (limit - held) / FILLED_PER_NS : 0;
    return ns < SHORTEST_INTERVAL_NS ? SHORTEST_INTERVAL_NS : ns > LONGEST_INTERVAL_NS ? LONGEST_INTERVAL_NS : ns;
}

static void warn_if_near(size_t held, size_t limit)
{
    unsigned percent = atomic_load_explicit(&warn, memory_order_relaxed);
    uint64_t mark = sti_warning_part(limit, percent);
    if (percent == 0 || held < mark - mark / 8)
        atomic_store_explicit(&warned, false, memory_order_relaxed);
    else if (held > mark && !atomic_exchange_explicit(&warned, true, memory_order_relaxed))
        sti_warning_post(
            &(const stint_warning){ .reason = STINT_REASON_GLOBAL_MEMORY_LIMIT, .used = held, .limit = limit });
}

/* No thread is cancelled in the midst of a malloc. */
static void global_look(uint64_t now)
{
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    size_t limit = atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
    size_t held = sti_resident();
    uint64_t due = now + SHORTEST_INTERVAL_NS; /* unless another limit has been set meanwhile */
    atomic_store_explicit(&resident, held, memory_order_relaxed);
    atomic_compare_exchange_strong_explicit(&next_look, &due, now + until_next_look(held, limit), memory_order_relaxed,
                                            memory_order_relaxed);
    warn_if_near(held, limit);
    if (limit != 0 && held > limit)
        make_room(held, limit);
    sti_thread_set_cancellation(cancellation);
}

void sti_global_look(void)
{
    uint64_t now = sti_clock_now();
    uint64_t due = atomic_load_explicit(&next_look, memory_order_relaxed);
    if (now >= due && atomic_compare_exchange_strong_explicit(&next_look, &due, now + SHORTEST_INTERVAL_NS,
                                                              memory_order_relaxed, memory_order_relaxed))
        global_look(now);
}

bool sti_global_is_near(void)
{
    size_t limit = atomic_load_explicit(&sti_global_limit, memory_order_relaxed);
    if (limit == 0)
        return false;
    sti_global_look();
    if (atomic_load_explicit(&resident, memory_order_relaxed) <= limit - (limit >> NEAR_SHIFT))
        return false;
    const struct sti_thread *thread = sti_thread_first();
    while (thread != NULL && !runs_task(thread))
        thread = thread->next;
    return thread != NULL;
}

/* release: for what the task before it held, this one is not chosen (acquire). */
static inline void task_set(struct sti_thread *thread, uint64_t number, uint64_t start)
{
    atomic_store_explicit(&thread->task, number, memory_order_release);
    atomic_store_explicit(&thread->started, start, memory_order_relaxed);
}

void sti_global_begin_task(struct sti_thread *thread, uint64_t number, uint64_t start)
{
    thread->tasks = number;
    atomic_store_explicit(&thread->held, 0, memory_order_relaxed);
    atomic_store_explicit(&thread->deferral, 0, memory_order_relaxed);
    task_set(thread, number, start);
}

struct sti_running sti_global_set_aside(const struct sti_thread *thread)
{
    return (struct sti_running){ .number = atomic_load_explicit(&thread->task, memory_order_relaxed),
                                 .started = atomic_load_explicit(&thread->started, memory_order_relaxed) };
}

void sti_global_go_on(struct sti_thread *thread, struct sti_running running)
{
    task_set(thread, running.number, running.started);
}

static void global_report(size_t held, const char *task)
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
    STI_BOUNDARY_CALLBACK(function, &event, argument, NULL);
}

static void end_victim(const struct sti_thread *thread, const char *task)
{
    size_t held = sti_global_held(thread);
    sti_process_collect();
    atomic_store_explicit(&since, 0, memory_order_relaxed);
    global_report(held, task);
}

/* Out of line: it is rare, and has registers saved. */
static __attribute__((noinline, cold)) void end_rare_task(struct sti_thread *thread, const char *task, bool was_victim,
                                                          const struct sti_running *around)
{
    if (was_victim)
        end_victim(thread, task);
    if (around != NULL)
        sti_global_go_on(thread, *around);
}

void sti_global_end_task(struct sti_thread *thread, const char *task, const struct sti_running *around)
{
    atomic_store_explicit(&thread->started, 0, memory_order_relaxed);
    bool was_victim = sti_thread_has_victim(thread, atomic_load_explicit(&thread->task, memory_order_relaxed));
    if (__builtin_expect(was_victim || around != NULL, 0))
        end_rare_task(thread, task, was_victim, around);
}

/* --- Giving back what nobody needs. --- */

#define ANSWER_PATIENCE_NS UINT64_C(1000000000)
#define ANSWER_NAP_NS 50000

static atomic_uint unanswered; /* so many of the idle have been asked and have not answered */
static atomic_bool under_way;

bool sti_give_back(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread != NULL)
        sti_heap_give_back(thread);
    sti_stack_give_back();
    sti_process_collect();
    return thread != NULL && thread->retired != NULL;
}

/* Bytes rolled back since free pages were given back. The thread that passes the limit sets the count to 0 and gives
 * back; a thread that adds in between has passed the limit too. */
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
    atomic_fetch_add_explicit(&unanswered, 1, memory_order_relaxed);
}

/* release, and acquire where answers are awaited: what has been given back is so for the thread that reads again. */
void sti_give_back_answer(void)
{
    atomic_fetch_sub_explicit(&unanswered, 1, memory_order_release);
}

void sti_give_back_all(void)
{
    if (atomic_exchange_explicit(&under_way, true, memory_order_acquire))
        return;
    sti_hooks.wake_idle();
    sti_give_back();
    uint64_t end = sti_clock_now() + ANSWER_PATIENCE_NS;
    while (atomic_load_explicit(&unanswered, memory_order_acquire) != 0 && sti_clock_now() < end)
        sti_thread_nap(ANSWER_NAP_NS);
    atomic_store_explicit(&next_look, 0, memory_order_relaxed); /* what was read before is too much */
    atomic_store_explicit(&under_way, false, memory_order_release);
}
