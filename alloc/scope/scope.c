/* SPDX-License-Identifier: MIT
 *
 * Opening and closing a scope: sti_scope_run, for stint_run and for the executor. Any thread. */
#include "scope.h"

#include <errno.h>
#include <stint/token.h>
#include <string.h>

#include "alloc/heap/free.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/held.h"
#include "alloc/heap/libc_heap.h"
#include "alloc/heap/mapping.h"
#include "alloc/heap/nursery.h"
#include "alloc/interrupt/abandoned_frames.h"
#include "alloc/interrupt/cxx.h"
#include "alloc/interrupt/forks.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/token.h"
#include "alloc/interrupt/warning.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/account.h"
#include "alloc/meter/global.h"
#include "alloc/meter/meter.h"
#include "alloc/meter/shared_budget.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/link.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/tracing.h"
#include "alloc/rollback/rollback.h"
#include "alloc/rollback/undo.h"
#include "context.h"
#include "run.h"
#include "share.h"
#include "subtask.h"

#define DEFAULT_GRACE ((size_t)1 << 20)
#define LARGEST_GRACE ((size_t)1 << 47) /* so that a block which no address space has room for is not charged to it */
#define LIBC_RESERVE ((size_t)16 << 20)

int sti_options_look(const stint_options *options)
{
    if ((unsigned)options->on_interrupt > (unsigned)STINT_UNWIND ||
        (unsigned)options->priority > (unsigned)STINT_PRIORITY_LOW ||
        (unsigned)options->report > (unsigned)STINT_REPORT_HEAP || options->warn > 100 ||
        !(options->sample_rate >= 0 && options->sample_rate <= 1)) /* it may be no number */
        return EINVAL;
    if ((options->flags & STINT_COMMIT) != 0 && (options->on_interrupt != STINT_FAIL || options->discard))
        return EINVAL; /* a function that was left has not finished what it began */
    if (options->sample_rate > 0)
        atomic_fetch_or_explicit(&sti_scopes_observed, STI_OBSERVED_RATE, memory_order_relaxed);
    return options->on_interrupt != STINT_UNWIND || sti_link_unwinds() ? 0 : ENOTSUP;
}

int sti_scope_begin_preemption(struct sti_scope *scope)
{
    int error = sti_preempt_open(scope->thread, &scope->signal_was_blocked);
    if (error != 0)
        return error;
    if (sti_reporting_is_on(scope))
        sti_hooks.reporting.begin(scope);
    error = sti_hook_watch_scope(scope);
    if (error != 0)
        sti_preempt_close(scope->signal_was_blocked);
    return error;
}

static bool is_untimed(const stint_options *options)
{
    return (options->flags & STINT_UNTIMED) != 0 && !sti_global_is_limited() &&
           (options->budget.wall_ns | options->budget.run_ns | options->budget.cpu_ns) == 0;
}

inline __attribute__((always_inline)) void sti_scope_init(struct sti_scope *scope, struct sti_thread *thread,
                                                          const struct sti_scope_request *request)
{
    const stint_options *options = request->options;
    scope->share = NULL;
    scope->charged = NULL;
    scope->peak = 0;
    scope->samples = 0;
    scope->deferred = 0;
    scope->looked = 0;
    scope->report = NULL;
    scope->walk_at = 0;
    scope->walk_gap = 0;
    scope->guards = NULL;
    scope->mutexes = NULL;
    scope->pushes = 0;
    scope->hooks = NULL;
    scope->heap = NULL;
    scope->heaps = NULL;
    scope->heap_count = 0;
    scope->libc_heaps = NULL;
    scope->mapped = NULL;
    scope->undo = NULL;
    scope->payload = NULL;
    scope->message = NULL;
    scope->tripped = STINT_REASON_NONE;
    scope->masks = 0;
    scope->regions = 0;
    scope->warn = 0;
    scope->keeps = 0;
    scope->suppressed = 0;
    scope->entered = false;
    scope->finished = false;
    scope->refused = false;
    scope->is_unheard = false;
    scope->is_subtask = false;
    scope->is_inner_subtask = false;
    scope->watched = false;
    scope->below = sti_thread_metered != NULL ? thread->scope : NULL;
    scope->outer = NULL;
    scope->request = request;
    scope->forks = sti_forks_outstanding(thread);
    scope->own_forks = sti_own_forks;
    scope->grace_left = options->grace == 0              ? DEFAULT_GRACE
                        : options->grace < LARGEST_GRACE ? options->grace
                                                         : LARGEST_GRACE;
    scope->libc_left = LIBC_RESERVE;
    atomic_init(&scope->deadline, UINT64_MAX);
    atomic_init(&scope->cpu.limit, 0);
    scope->cpu.look = UINT64_MAX;
    scope->account = options->account;
    scope->token = request->token;
    scope->stop = request->stop;
    scope->on_interrupt = options->on_interrupt;
    sti_cxx_note(&scope->cxx);
    scope->unwind.under_way = false;
    scope->unwind.throws_past_libc = false;
    scope->thread = thread;
    scope->watch.link = NULL;
    scope->preemptible = options->preemptible;
    scope->untimed = is_untimed(options);
    scope->wiped = options->wipe;
    scope->sweep_at = STI_SCOPE_FIRST_SWEEP;
}

/* The quick clock may be a little off. */
static uint64_t now_but_not_before(struct sti_thread *thread, uint64_t begin)
{
    uint64_t now = sti_quick_clock_now(&thread->clock);
    return now > begin ? now : begin;
}

static bool is_charged(const struct sti_scope *outer, const stint_account *account)
{
    while (outer != NULL && !sti_account_contains(account, outer->account))
        outer = outer->outer;
    return outer != NULL;
}

/* What a scope around this one charges already is not charged twice, and counts no second task. */
static __attribute__((noinline)) void charge_once(struct sti_scope *scope)
{
    const stint_account *charged = scope->account;
    while (charged != NULL && !is_charged(scope->outer, charged))
        charged = sti_account_parent(charged);
    if (charged == scope->account)
        scope->account = NULL;
    else
        scope->charged = charged;
}

static __attribute__((noinline)) void scope_begin_warnings(struct sti_scope *scope, const stint_options *options)
{
    scope->warn = options->warn;
    scope->begin = scope->thread->used;
    sti_warning_mark_time(scope, &options->budget);
    sti_warning_mark_bytes(scope, &options->budget);
}

static int open_scope(struct sti_thread *thread, struct sti_scope *scope, const struct sti_scope_request *request)
{
    const stint_options *options = request->options;
    sti_scope_init(scope, thread, request);
    uint64_t start = scope->untimed ? request->submitted_ns : now_but_not_before(thread, request->submitted_ns);
    uint64_t submitted = request->submitted_ns != 0 ? request->submitted_ns : start;
    scope->start = start;
    scope->number = thread->tasks + 1; /* before the watch can see it */
    if (request->limits != NULL) {
        sti_scope_begin_limits(scope);
        atomic_store_explicit(&request->limits->start, start, memory_order_relaxed);
    }
    if (!request->detached)
        scope->outer = scope->below;
    if (scope->outer != NULL && scope->outer->wiped)
        scope->wiped = true;
    if (scope->outer != NULL && scope->account != NULL)
        charge_once(scope);
    if ((options->budget.wall_ns | options->budget.run_ns) != 0)
        atomic_init(&scope->deadline, sti_limits_deadline(&options->budget, submitted, start));
    if (options->budget.cpu_ns != 0 || scope->outer != scope->below)
        sti_cpu_begin(scope, options->budget.cpu_ns, start); /* before the watch can see it */
    if (__builtin_expect(options->warn != 0, 0))
        scope_begin_warnings(scope, options);

    if (scope->account != NULL && !request->entered && !sti_account_enter(scope->account, scope->charged))
        return EBUSY;
    scope->entered = true;
    if (scope->preemptible) {
        int error = sti_scope_begin_preemption(scope);
        if (error != 0) {
            sti_account_leave(scope->account, scope->charged);
            return error;
        }
    }
    sti_hold_begin(scope);
    thread->scope = scope;
    if (options->wipe)
        sti_wipe_begin();
    bool no_nursery = scope->wiped;
    if (sti_scopes_are_observed())
        no_nursery = sti_scope_begin_observed(scope) || no_nursery;
    sti_nursery_open(thread, scope, no_nursery);
    sti_meter_begin(thread, &options->budget);
    if (scope->outer == NULL && scope->below != NULL)
        scope->around = sti_global_set_aside(thread);
    if (scope->outer == NULL)
        sti_global_begin_task(thread, scope->number, start != 0 ? start : 1); /* untimed: as the oldest */
    if (sti_scope_has_limit_of_time(scope))
        sti_next_deadline_begin(thread, scope);
    sti_thread_enter(thread);
    return 0;
}

void sti_scope_leave(struct sti_scope *scope)
{
    sti_thread_suspend();
    if (scope->regions > 0)
        sti_blocking_close(scope);
    if (scope->watched)
        sti_watch_end(&scope->watch);
    if (scope->preemptible)
        sti_preempt_close(scope->signal_was_blocked);
}

/* Inlined: or an empty task takes some nanoseconds more. */
inline __attribute__((always_inline)) void sti_scope_return(struct sti_thread *thread, struct sti_scope *scope)
{
    sti_reporting_ended(scope);
    if (sti_scope_has_limit_of_time(scope) || thread->hides_deadlines)
        sti_next_deadline_renew(thread, scope->below);
    sti_hold_hand_down(scope);
    thread->scope = scope->below;
    sti_thread_return_to(thread, scope->below);
}

/* --- Opening and closing a task's own scope. --- */

/* Inlined for the most of tasks, which have nothing that could stop them here but tokens and what the process holds.
 * The scope has just been opened. */
static inline void scope_look_first(const struct sti_thread *thread, struct sti_scope *scope)
{
    uint64_t looked = atomic_load_explicit(&sti_thread_requests, memory_order_seq_cst);
    if (scope->outer != NULL || (sti_scope_deadline(scope) & scope->cpu.look) != UINT64_MAX ||
        sti_scope_new_limits(scope, 0) != 0 || sti_token_is_set(scope->stop) || sti_token_is_set(scope->token) ||
        sti_thread_has_victim(thread, scope->number))
        sti_interrupt_look(scope, scope->start);
    else
        scope->looked = looked;
}

/* Few tasks leave anything in the thread or in libc. */
static inline bool has_left_state(const struct sti_scope *scope)
{
    uintptr_t any = (uintptr_t)scope->libc_heaps | (uintptr_t)scope->mapped | (uintptr_t)scope->undo;
    return __builtin_expect(any != 0, 0);
}

__attribute__((noinline)) void sti_scope_commit_state(struct sti_thread *thread, struct sti_scope *scope)
{
    sti_undo_commit(scope);
    sti_libc_heap_end(thread, scope, scope->outer);
    sti_mapped_commit(&scope->mapped, scope->outer != NULL ? &scope->outer->mapped : NULL);
}

/* Returns how much of the scope around it its heaps are from now on. */
static size_t scope_commit(struct sti_thread *thread, struct sti_scope *scope)
{
    STI_PROBE1(commit, scope);
    if (has_left_state(scope))
        sti_scope_commit_state(thread, scope);
    sti_nursery_commit(thread, scope);
    if (scope->outer != NULL)
        return sti_heap_hand_over(thread, scope, scope->outer);
    if (scope->heaps != NULL)
        sti_heap_commit(thread, scope->heaps);
    return 0;
}

static __attribute__((noinline)) void roll_back_state(struct sti_thread *thread, struct sti_scope *scope,
                                                      const char *task)
{
    sti_undo_rollback(scope, task);
    sti_libc_heap_end(thread, scope, NULL);
    scope->heaps = sti_mapped_take(&scope->mapped, scope->heaps);
}

static size_t scope_roll_back(struct sti_thread *thread, struct sti_scope *scope, const char *task)
{
    STI_PROBE3(rollback, scope, task, scope->tripped);
    if (has_left_state(scope))
        roll_back_state(thread, scope, task);
    struct sti_heap *blocks = sti_nursery_begin_rollback(thread, scope);
    if (blocks != NULL)
        blocks->next = scope->heaps;
    return sti_heap_rollback(thread, blocks != NULL ? blocks : scope->heaps, task);
}

static __attribute__((noinline, cold)) size_t roll_back_traced(struct sti_thread *thread, struct sti_scope *scope,
                                                               const char *task, uint64_t end)
{
    sti_trace_begin(STI_TRACE_BEGIN_ROLLBACK, scope, scope->untimed ? 0 : end, task, NULL);
    size_t retained = scope_roll_back(thread, scope, task);
    sti_trace_end(STI_TRACE_END_ROLLBACK, scope, retained, STI_TRACE_ANY);
    return retained;
}

/* Where the account's slot is given back, too. */
static __attribute__((noinline)) void scope_leave_account(const struct sti_scope *scope, const stint_outcome *outcome)
{
    sti_account_count(scope->account, outcome->reason, outcome->usage.allocated);
    sti_account_leave(scope->account, scope->charged);
}

static inline void count_end(struct sti_thread *thread, const struct sti_scope_request *request, stint_reason reason,
                             const stint_usage *usage)
{
    struct sti_tally *tally = request->tally;
    if (tally == NULL)
        tally = &thread->tally;
    else
        sti_histogram_add_own(&tally->waited, usage->queued_ns);
    sti_tally_count(tally, reason, usage->wall_ns, usage->allocated);
}

/* End the thread's innermost scope and make the one below it current again. */
static void close_scope(struct sti_thread *thread, int code, void *value, const struct sti_scope_request *request,
                        stint_outcome *outcome)
{
    struct sti_scope *scope = thread->scope;
    sti_scope_leave(scope);
    uint64_t start = scope->start;
    uint64_t end = scope->untimed ? start : now_but_not_before(thread, start);
    sti_interrupt_look_again(scope, end);
    uint64_t cpu = sti_scope_cpu_limit(scope) != 0 ? sti_cpu_end(scope) : 0;
    if (scope->share != NULL)
        sti_group_close(scope, cpu);

    stint_reason reason = scope->tripped;
    if (reason == STINT_REASON_FAILED && code == 0)
        code = EINVAL; /* a stolen subtask's: abandoned_frames.h */
    if (reason == STINT_REASON_NONE && code != 0)
        reason = STINT_REASON_FAILED;
    sti_outcome_set_reason(outcome, reason, code);
    outcome->value = outcome->status == STINT_OK ? value : NULL;
    outcome->payload = NULL;
    outcome->payload_size = 0;
    if (__builtin_expect(scope->payload != NULL, 0))
        sti_payload_hand_over(scope, outcome);
    bool commits =
        outcome->status == STINT_OK ? !request->options->discard : (request->options->flags & STINT_COMMIT) != 0;

    size_t held = sti_heap_held(scope);
    if (__builtin_expect(held > STI_NURSERY_LOOKED_AT, 0) && scope->young.held > STI_NURSERY_LOOKED_AT) {
        sti_nursery_measure(thread, scope);
        held = sti_heap_held(scope);
    }
    size_t mapped = sti_mapped_held(scope->mapped); /* which the system has back at once */
    if (held > scope->peak)
        scope->peak = held;
    outcome->usage = (stint_usage){
        .allocated = thread->used - scope->begin,
        .peak = scope->peak,
        .samples = scope->samples,
        .deferred = scope->deferred,
        .wall_ns = end - start,
        .queued_ns = request->submitted_ns != 0 ? start - request->submitted_ns : 0,
        .cpu_ns = request->options->budget.cpu_ns != 0 ? cpu : 0,
        .committed = commits ? held : 0,
    };
    if (__builtin_expect(scope->share != NULL, 0)) {
        sti_group_add_usage(scope, &outcome->usage);
        count_end(thread, request, reason, &outcome->usage);
    } else {
        count_end(thread, request, reason, &outcome->usage); /* twice: what is in registers need not be read again */
    }

    if (sti_scopes_are_observed())
        sti_scope_end_observed(scope, end, outcome);
    if (scope->mutexes != NULL)
        sti_mutex_abandon_all(scope);
    if (scope->share != NULL)
        sti_undo_take_over(&scope->share->group->undo, scope);
    size_t left = 0;
    if (reason != STINT_REASON_NONE)
        sti_reporting_begin_end(scope, reason);
    if (commits) {
        left = scope_commit(thread, scope);
    } else {
        const char *name = request->options->name;
        outcome->usage.kept =
            sti_trace_runs() ? roll_back_traced(thread, scope, name, end) : scope_roll_back(thread, scope, name);
    }
    if (reason != STINT_REASON_NONE)
        sti_reporting_end(scope, outcome);
    if (scope->share != NULL)
        sti_group_end(scope, commits);
    if (request->options->wipe)
        sti_wipe_end();
    sti_meter_end(thread, left);
    if (scope->outer == NULL)
        sti_global_end_task(thread, request->options->name, scope->below != NULL ? &scope->around : NULL);
    if (!commits)
        sti_rolled_back(held > mapped ? held - mapped : 0);
    if (scope->account != NULL)
        scope_leave_account(scope, outcome);
    sti_scope_return(thread, scope);
}

void sti_scope_abandon(struct sti_scope *scope)
{
    struct sti_thread *thread = scope->thread;
    const struct sti_scope_request *request = scope->request;
    stint_token *token = (stint_token *)(uintptr_t)request->token; /* stint_run's, which will not return */
    stint_account *account = request->options->account;
    stint_context *context = request->options->context;
    stint_outcome unheard;
    scope->is_unheard = true;
    sti_forks_give_up(scope);
    sti_guard_run_all(scope);
    sti_hook_drop(scope);
    sti_forks_settle(scope, NULL); /* what guards have forked */
    sti_hold_end_regions(&scope->holds);
    close_scope(thread, EINVAL, NULL, request, &unheard);
    sti_process_free((void *)(uintptr_t)unheard.payload);
    stint_token_release(token);
    stint_account_release(account);
    stint_context_release(context);
    if (thread->scope == NULL && sti_share_has_inbox_entries(thread))
        sti_share_collect(thread);
}

int sti_scope_run(const struct sti_scope_request *request, stint_outcome *outcome)
{
    struct sti_thread *thread = sti_thread_self();
    if (thread == NULL) {
        if (request->entered)
            sti_account_leave(request->options->account, NULL);
        return sti_thread_missing();
    }
    struct sti_scope scope;
    scope.frame = STI_FRAME_ADDRESS();
    int error = open_scope(thread, &scope, request);
    if (error != 0)
        return error;

    struct sti_resumed resumed;
    resumed.code = 0;
    resumed.value = NULL;
    scope.message = outcome->message;
    sti_outcome_clear_message(outcome); /* all of it: a caller may keep a copy where roots are sought */
    scope_look_first(thread, &scope);
    if (__builtin_expect(scope.tripped == STINT_REASON_DEADLINE, 0))
        scope.tripped = STINT_REASON_EXPIRED;
    if (scope.tripped == STINT_REASON_NONE)
        sti_scope_run_resumable(&scope, request->fn, request->arg, &resumed);
    else
        scope.is_unheard = true;
    if (sti_process_is_partial())
        return ENOTSUP;
    close_scope(thread, resumed.code, resumed.value, request, outcome);
    if (scope.below == NULL && sti_share_has_inbox_entries(thread))
        sti_share_collect(thread);
    return 0;
}
