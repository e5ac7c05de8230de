/* SPDX-License-Identifier: MIT
 *
 * Fork and join off their fast paths: forks that are shared, stolen, waited for and settled; see fork.h.
 *
 * Nothing of the executor is half done while a subtask runs, in a join or in a stolen subtask: an interrupt may jump
 * over the frames of this file that lie below it. In the midst of these functions there is no sample point. */
#include "fork.h"

#include <errno.h>
#include <stint/interrupt.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/forks.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/way.h"
#include "alloc/meter/shared_budget.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "alloc/scope/subtask.h"
#include "executor/base/event.h"
#include "executor/base/state.h"
#include "executor/base/visits.h"
#include "executor/worker/deadlock.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"

/* How often a join looks for something to help with before it sleeps: some 10 microseconds in all. */
#define AWAIT_ROUNDS 40

/* Of threads that are no workers: every fork and join takes the slow path. */
STI_TABLE struct stint_forks_ sti_no_forks;
__thread struct stint_forks_ *stint_thread_forks_ = &sti_no_forks;

/* --- Sharing ------------------------------------------------------------------------------------------------------ */

/* Somebody has asked: share forks below this index, if there are any and they may be. Otherwise the question stays. */
static void fork_answer(struct sti_worker *worker, size_t end)
{
    struct sti_group *group;
    worker->split.task = sti_worker_task(worker);
    if (sti_group_open(&group) == 0 && sti_split_share(&worker->split, end, group))
        sti_park_notify_shared(worker->pool);
}

void sti_fork_share_all(struct sti_worker *worker)
{
    struct sti_group *group;
    if (sti_split_depth(&worker->split) == worker->split.split)
        return;
    worker->split.task = sti_worker_task(worker);
    if (sti_group_open(&group) == 0 && sti_split_share_all(&worker->split, group))
        sti_park_notify_shared(worker->pool);
}

/* --- Forking ------------------------------------------------------------------------------------------------------ */

/* Of all forks that only this thread can run (forks.h): the address is that of no other thread's variable. */
static size_t place_of_own(void)
{
    return STINT_FORK_IN_JOIN_ + (uintptr_t)&stint_thread_forks_;
}

static size_t push_own(void)
{
    sti_own_fork_begin();
    return place_of_own();
}

/* Take back a fork of the thread's own, also where an interrupt has come meanwhile: the fork's frame is still here, and
 * the fork has not run. */
static bool fork_take_own(size_t place)
{
    if (place != place_of_own())
        return false;
    sti_own_fork_end();
    return true;
}

static size_t fork_push(struct sti_worker *worker)
{
    size_t place = sti_split_push(&worker->split);
    if (sti_split_is_asked(&worker->split))
        fork_answer(worker, sti_split_depth(&worker->split));
    return place;
}

/* Nothing of the fork has begun. */
struct stint_fork_slot_ *stint_fork_slot_slow_(void)
{
    struct sti_worker *worker = sti_worker_current();
    sti_interrupt_near_stack_end();
    return worker != NULL ? sti_split_free_slot(&worker->split) : NULL;
}

size_t stint_fork_push_slow_(const struct stint_fork_slot_ *slot)
{
    if (sti_process_is_partial())
        return place_of_own();
    return slot != NULL ? fork_push(sti_worker_current()) : push_own();
}

int stint_fork_slow_(stint_subtask *subtask, stint_fn *fn, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (subtask == NULL || fn == NULL)
        return EINVAL;
    struct stint_fork_slot_ *slot = stint_fork_slot_slow_();
    subtask->fn_ = fn;
    subtask->arg_ = arg;
    if (slot != NULL)
        slot->fork = subtask;
    subtask->place_ = slot != NULL ? fork_push(sti_worker_current()) : push_own();
    return 0;
}

/* --- Stealing ----------------------------------------------------------------------------------------------------- */

static struct sti_stolen steal_from(struct sti_worker *worker, struct sti_worker *owner, const struct sti_group *group)
{
    struct sti_stolen stolen = { sti_split_steal(&owner->split, group), owner };
    if (stolen.offer == NULL) {
        sti_split_ask(&owner->split);
        return stolen;
    }
    atomic_store_explicit(&stolen.offer->thief, worker, memory_order_release);
    if (!sti_split_is_public(&owner->split) && sti_park_is_anybody_idle(worker->pool))
        sti_split_ask(&owner->split);
    return stolen;
}

struct sti_stolen sti_fork_steal(struct sti_worker *worker, const struct sti_group *group)
{
    struct sti_victims victims = sti_victims_of(worker);
    struct sti_stolen stolen = { .offer = NULL };
    struct sti_worker *owner;
    while (stolen.offer == NULL && (owner = sti_victims_next(&victims, worker)) != NULL)
        stolen = steal_from(worker, owner, group);
    return stolen;
}

const stint_options *sti_fork_options(struct sti_stolen stolen)
{
    const struct sti_group *group = atomic_load_explicit(&stolen.offer->group, memory_order_relaxed);
    return group->request->options;
}

/* The owner's thread has a record, which stays. */
static __attribute__((noinline, cold)) void subtask_trace_begin(struct sti_stolen stolen)
{
    const struct sti_thread *owner = atomic_load_explicit(&stolen.owner->record, memory_order_acquire);
    sti_trace_begin(STI_TRACE_BEGIN_FORK, stolen.offer, 0, sti_fork_options(stolen)->name, owner);
}

void sti_fork_run(struct sti_worker *worker, struct sti_stolen stolen)
{
    struct sti_offer *offer = stolen.offer;
    struct sti_frame frame;
    sti_worker_enter(worker, &frame, offer->task, true);
    sti_counter_add_own(&worker->forks);
    STI_PROBE3(fork_taken, offer->task, worker, stolen.owner);
    struct sti_group *group = atomic_load_explicit(&offer->group, memory_order_relaxed);
    offer->value = NULL;
    if (sti_trace_runs())
        subtask_trace_begin(stolen);
    offer->code = sti_subtask_run(group, offer->fn, offer->arg, &offer->value, &offer->interrupted);
    if (sti_trace_runs())
        sti_trace_end(STI_TRACE_END_FORK, offer, 0, STI_TRACE_ANY);
    sti_worker_leave(worker, &frame);
    sti_visit_let_pass();
    /* Before the owner can go on: what it forks next is for this worker, which would ask too late. */
    sti_split_ask(&stolen.owner->split);
    atomic_store_explicit(&offer->state, STI_OFFER_ENDED, memory_order_release);
    sti_event_signal(&stolen.owner->helped);
}

/* --- Joining ------------------------------------------------------------------------------------------------------ */

static bool offer_has_ended(const struct sti_offer *offer)
{
    return atomic_load_explicit(&offer->state, memory_order_acquire) == STI_OFFER_ENDED;
}

/* Steal back from the worker that has the awaited subtask; from others of the same task when that one has nothing. */
static bool fork_leapfrog(struct sti_worker *worker, const struct sti_offer *awaited)
{
    const struct sti_group *group = atomic_load_explicit(&awaited->group, memory_order_relaxed);
    struct sti_worker *thief = atomic_load_explicit(&awaited->thief, memory_order_relaxed);
    struct sti_stolen stolen = { .offer = NULL };
    if (thief != NULL)
        stolen = steal_from(worker, thief, group);
    if (stolen.offer == NULL)
        stolen = sti_fork_steal(worker, group);
    if (stolen.offer == NULL)
        return false;
    unsigned depth = sti_substitute_interrupt_sleep(worker);
    sti_fork_run(worker, stolen);
    sti_substitute_resume_sleep(worker, depth);
    return true;
}

/* A worker that sleeps here has given its place to a substitute. Workers that look for circles must know of a long
 * sleep (deadlock.h); no signal could end it. */
static void sleep_in_join(struct sti_worker *worker, const struct sti_offer *offer)
{
    sti_substitute_fall_asleep(worker, 1);
    if (!sti_park_await(worker, offer, sti_deadline_after(STI_SHORT_SLEEP_NS))) {
        struct sti_sleeper sleeper = { .worker = worker, .offer = offer };
        bool suppressed = sti_waking_suppress();
        sti_deadlock_look(&sleeper);
        sti_park_await(worker, offer, STI_NEVER);
        sti_deadlock_leave(&sleeper);
        if (suppressed)
            sti_waking_restore_scopes();
    }
    sti_substitute_awake(worker, 1);
}

/* Wait for the end of what a thief has. */
static const struct sti_offer *fork_await(struct sti_worker *worker, size_t index)
{
    const struct sti_offer *offer = &worker->split.offers[index];
    unsigned round = 0;
    while (!offer_has_ended(offer)) {
        sti_subtask_answer();
        if (fork_leapfrog(worker, offer))
            round = 0;
        else if (round < AWAIT_ROUNDS)
            sti_rest(round++);
        else
            sleep_in_join(worker, offer);
    }
    return offer;
}

STI_CALLING_CODE static int subtask_run(stint_subtask *subtask, void **value)
{
    void *result = NULL;
    subtask->place_ = STINT_FORK_JOINED_;
    int code = subtask->fn_(subtask->arg_, &result);
    if (value != NULL)
        *value = result;
    return code;
}

static bool fork_is_held(const struct sti_worker *worker, size_t place, const void *fork)
{
    return worker != NULL && sti_split_holds(&worker->split, place, fork);
}

/* Settled, or not a fork at all. */
static int error_of_none(void)
{
    return stint_is_interrupted() ? ECANCELED : EINVAL;
}

/* False: a thief has it. */
static bool fork_take_back(struct sti_worker *worker, size_t index)
{
    size_t depth = sti_split_depth(&worker->split);
    if (sti_split_is_asked(&worker->split))
        fork_answer(worker, index == depth - 1 ? index : depth);
    return sti_split_take(&worker->split, index);
}

/* Join a fork that a thief had. An interrupt finds the slot still occupied; its contents stay until the next fork. */
static int fork_collect(struct sti_worker *worker, size_t index, void **value)
{
    const struct sti_offer *offer = fork_await(worker, index);
    stint_checkpoint();
    sti_split_forget(&worker->split, index);
    if (value != NULL)
        *value = offer->value;
    return offer->code;
}

static int collect_plain(struct sti_worker *worker, stint_subtask *subtask, void **value)
{
    size_t index = sti_split_index(&worker->split, subtask->place_);
    subtask->place_ = STINT_FORK_JOINED_;
    return fork_collect(worker, index, value);
}

int stint_join_slow_(stint_subtask *subtask, void **value)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (subtask == NULL)
        return EINVAL;
    if (fork_take_own(subtask->place_))
        return subtask_run(subtask, value);
    struct sti_worker *worker = sti_worker_current();
    if (!fork_is_held(worker, subtask->place_, subtask))
        return error_of_none();
    bool is_here = fork_take_back(worker, sti_split_index(&worker->split, subtask->place_));
    return is_here ? subtask_run(subtask, value) : collect_plain(worker, subtask, value);
}

struct stint_fork_result_ stint_join_typed_slow_(size_t place, const struct stint_fork_kind_ *kind)
{
    static const char zeros[STINT_FORK_PAYLOAD_];
    const struct stint_fork_result_ not_run = { NULL, 0 };
    if (sti_process_is_partial())
        return (struct stint_fork_result_){ zeros, ENOTSUP };
    if (fork_take_own(place))
        return not_run;
    struct sti_worker *worker = sti_worker_current();
    if (!fork_is_held(worker, place, &kind->odd))
        return (struct stint_fork_result_){ zeros, error_of_none() };
    size_t index = sti_split_index(&worker->split, place);
    if (fork_take_back(worker, index))
        return not_run;
    int error = fork_collect(worker, index, NULL);
    const char *payload = worker->split.forks.slots[index].payload;
    return (struct stint_fork_result_){ error == 0 ? payload : zeros, error };
}

static void drop_held(struct sti_worker *worker, size_t index)
{
    if (sti_split_take(&worker->split, index))
        return;
    fork_await(worker, index);
    sti_split_forget(&worker->split, index);
}

void stint_fork_drop(stint_subtask *subtask)
{
    struct sti_worker *worker = sti_worker_current();
    if (subtask == NULL || subtask->place_ == STINT_FORK_JOINED_)
        return;
    if (!fork_take_own(subtask->place_) && fork_is_held(worker, subtask->place_, subtask))
        drop_held(worker, sti_split_index(&worker->split, subtask->place_));
    subtask->place_ = STINT_FORK_JOINED_;
}

/* --- Settling ----------------------------------------------------------------------------------------------------- */

static struct sti_worker *worker_of(struct sti_forks *forks)
{
    return (struct sti_worker *)((char *)forks - offsetof(struct sti_worker, below));
}

/* Without a look at the subtasks: their frames may be gone. In the child of a fork(2) there are no thieves to wait
 * for. */
static void forks_settle(struct sti_forks *forks, size_t kept)
{
    struct sti_worker *worker = worker_of(forks);
    struct sti_split *split = &worker->split;
    while (split->forks.depth > kept) {
        size_t newest = sti_split_depth(split) - 1;
        if (sti_split_take(split, newest))
            continue;
        if (sti_worker_current() == worker)
            fork_await(worker, newest);
        sti_split_forget(split, newest);
    }
}

static bool is_left(const struct sti_split *split, size_t index, const struct sti_way *way)
{
    uintptr_t at = sti_split_frame(split, index);
    return sti_split_is_typed(split, index) ? sti_way_passes_frame(way, at) : sti_way_passes(way, at);
}

static size_t not_left(struct sti_forks *forks, size_t from, const struct sti_way *way)
{
    const struct sti_split *split = &worker_of(forks)->split;
    size_t place = from;
    while (place < split->forks.depth && !is_left(split, sti_split_index(split, place), way))
        place += sizeof(struct stint_fork_slot_);
    return place;
}

static void forks_wake(struct sti_forks *forks)
{
    struct sti_worker *worker = worker_of(forks);
    sti_park_wake(worker);
    sti_event_signal(&worker->helped);
}

void sti_fork_begin_thread(struct sti_worker *worker)
{
    worker->below = (struct sti_forks){
        .outstanding = &worker->split.forks.depth, .settle = forks_settle, .not_left = not_left, .wake = forks_wake
    };
    if (sti_forks_register(&worker->below) == 0)
        stint_thread_forks_ = &worker->split.forks;
}

void sti_fork_leave_worker(void)
{
    stint_thread_forks_ = &sti_no_forks;
}

void sti_fork_end_thread(void)
{
    sti_fork_leave_worker();
    sti_forks_register(NULL);
}
