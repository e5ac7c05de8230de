/* SPDX-License-Identifier: MIT
 *
 * How an interrupt reaches a thread that makes no sample points: hooks, sleeps in the library's own waits, and blocking
 * regions; see hook.h. */
#include "hook.h"

#include <errno.h>
#include <stddef.h>
#include <stint/interrupt.h>
#include <stint/pool.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "boundary.h"
#include "interrupt.h"
#include "pushed.h"
#include "signals.h"
#include "token.h"
#include "warning.h"
#include "watch.h"

/* --- Interrupt hooks, and the watch of a scope that has some or is preemptible. A scope's hooks are changed by its
 * thread, under the watch's lock; the watch thread calls those of a scope whose token is set or whose deadline has
 * passed, the scope's own thread those of a scope that it finds tripped. fired, under the lock, makes it once. */

static uint64_t earliest_limit(const struct sti_scope *innermost, uint64_t now)
{
    uint64_t earliest = UINT64_MAX;
    for (const struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        uint64_t deadline = sti_deadline_watch(scope);
        if (deadline < earliest)
            earliest = deadline;
        uint64_t mark = sti_scope_time_mark(scope);
        if (mark < earliest)
            earliest = mark;
        uint64_t cpu_end = sti_cpu_watch(scope, now);
        if (cpu_end < earliest)
            earliest = cpu_end;
    }
    return earliest;
}

/* What another thread may read of a scope while it is on the list: what was set when it and those around it opened, and
 * limits that are changed. now: by sti_clock_now; 0: whatever the time is. */
static bool is_flagged(const struct sti_scope *innermost, uint64_t now)
{
    for (const struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (sti_token_is_set(scope->stop) || sti_token_is_set(scope->token) ||
            sti_interrupt_has_tripped_elsewhere(scope) || (scope->outer == NULL && sti_interrupt_is_victim(scope)) ||
            (now != 0 && (sti_deadline_watch(scope) <= now || sti_cpu_watch(scope, now) <= now)))
            return true;
    }
    return false;
}

static stint_hook *find_unfired(struct sti_scope *scope)
{
    stint_hook *hook = (stint_hook *)sti_pushed_at(scope, &scope->hooks);
    while (hook != NULL && hook->fired_)
        hook = (stint_hook *)sti_pushed_at(scope, &hook->pushed_.below_);
    return hook;
}

static stint_hook *take_unfired(struct sti_scope *scope)
{
    stint_hook *hook = find_unfired(scope);
    if (hook != NULL)
        hook->fired_ = true;
    return hook;
}

/* Whether its limits have been changed, or what it has used was asked for, since it was told last. */
static bool has_news(const struct sti_scope *scope, uint64_t *news)
{
    const struct sti_limits *limits = sti_scope_limits(scope);
    if (limits == NULL)
        return false;
    *news = sti_limits_version(limits);
    if (limits->changed != NULL)
        *news += atomic_load_explicit(&limits->asked, memory_order_relaxed);
    return *news != scope->limits_notified;
}

/* A task that makes no sample points takes them in its signal's handler. */
static void notify_change(struct sti_scope *scope)
{
    uint64_t news;
    if (!has_news(scope, &news))
        return;
    scope->limits_notified = news;
    if (sti_scope_limits(scope)->changed != NULL)
        sti_scope_limits(scope)->changed(scope->request->arg);
    else if (scope->preemptible && scope->suppressed == 0)
        sti_preempt_send(scope->thread);
}

static uint64_t look_at_scope(struct sti_watch *watch, uint64_t now)
{
    struct sti_scope *scope = (struct sti_scope *)((char *)watch - offsetof(struct sti_scope, watch));
    notify_change(scope);
    if (scope->warn != 0)
        sti_warning_look_at_time(scope, now);
    if (!is_flagged(scope, now))
        return earliest_limit(scope, now);
    atomic_store_explicit(&scope->thread->limit, 0, memory_order_seq_cst);
    stint_hook *hook = take_unfired(scope);
    if (hook != NULL) {
        sti_watch_call(watch, hook->pushed_.function_, hook->pushed_.arg_);
        return STI_WATCH_AGAIN;
    }
    if (!scope->preemptible || scope->suppressed > 0)
        return STI_WATCH_NEVER;
    uint64_t next = sti_preempt_next(scope->thread);
    if (next > now)
        return next;
    sti_preempt_send(scope->thread);
    return now + STI_ASK_AGAIN_NS;
}

/* Where there is no more to it than a signal, that is sent here: whoever has stopped the task runs, and the watch would
 * have to be given a processor first. */
static bool tell_scope(struct sti_watch *watch)
{
    struct sti_scope *scope = (struct sti_scope *)((char *)watch - offsetof(struct sti_scope, watch));
    uint64_t news;
    if (has_news(scope, &news))
        return true;
    if (!is_flagged(scope, 0))
        return false;
    if (find_unfired(scope) != NULL)
        return true;
    return scope->preemptible && scope->suppressed == 0 && !sti_preempt_send(scope->thread);
}

int sti_hook_watch_scope(struct sti_scope *scope)
{
    if (scope->watched)
        return 0;
    scope->watch.look = look_at_scope;
    scope->watch.tell = tell_scope;
    int error = sti_watch_begin(&scope->watch, earliest_limit(scope, sti_clock_now()));
    scope->watched = error == 0;
    return error;
}

void sti_hook_wake_if_flagged(const struct sti_scope *scope)
{
    if (is_flagged(scope, sti_clock_now()))
        sti_watch_hasten(0);
}

void sti_hook_drop(struct sti_scope *scope)
{
    if (scope->hooks == NULL)
        return;
    sti_watch_lock();
    sti_watch_await_calls(&scope->watch);
    scope->hooks = NULL;
    sti_watch_unlock();
}

void sti_hook_leave(struct sti_scope *scope, const struct sti_way *way)
{
    if (scope->hooks == NULL)
        return;
    sti_watch_lock();
    sti_watch_await_calls(&scope->watch);
    while (sti_pushed_take_left(scope, &scope->hooks, way) != NULL)
        ;
    sti_watch_unlock();
}

void sti_hook_fire(struct sti_scope *innermost)
{
    const struct sti_scope *end = sti_interrupt_outermost_tripped(innermost)->outer;
    innermost->masks++;
    for (struct sti_scope *scope = innermost; scope != end; scope = scope->outer) {
        while (scope->hooks != NULL) {
            sti_watch_lock();
            const stint_hook *hook = take_unfired(scope);
            sti_watch_unlock();
            if (hook == NULL)
                break;
            STI_BOUNDARY_CALLBACK(hook->pushed_.function_, hook->pushed_.arg_, NULL, NULL);
        }
    }
    innermost->masks--;
}

/* With the watch's lock. */
static void hook_take_off(struct sti_scope *scope, const stint_hook *hook)
{
    if (sti_pushed_take_off(scope, &scope->hooks, &hook->pushed_, UINTPTR_MAX))
        sti_watch_await_calls(&scope->watch);
}

int stint_hook_push(stint_hook *hook, stint_hook_fn *function, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (hook == NULL || function == NULL)
        return EINVAL;
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return 0;
    struct sti_scope *scope = thread->scope;
    int error = sti_hook_watch_scope(scope);
    if (error != 0)
        return error;
    sti_watch_lock();
    hook_take_off(scope, hook); /* a longjmp within its frame may have left it on the list */
    *hook = (stint_hook){ .pushed_ = { .function_ = function, .arg_ = arg } };
    sti_pushed_add(&scope->hooks, &hook->pushed_);
    sti_watch_unlock();
    sti_hook_wake_if_flagged(scope);
    return 0;
}

void stint_hook_pop(stint_hook *hook)
{
    if (sti_process_is_partial())
        return;
    struct sti_thread *thread = sti_thread_metered;
    if (hook == NULL || thread == NULL)
        return;
    sti_watch_lock();
    hook_take_off(thread->scope, hook);
    sti_watch_unlock();
}

/* --- Ending the sleep of a task that is to be interrupted. Thread of the scope. --- */

/* On the watch's thread. */
static void waking_come(void *arg)
{
    struct sti_waking *waking = arg;
    atomic_store_explicit(&waking->come, true, memory_order_release);
    waking->wake(waking->arg);
}

void sti_waking_begin(struct sti_waking *waking, void (*wake)(void *arg), void *arg)
{
    atomic_init(&waking->come, false);
    waking->wake = wake;
    waking->arg = arg;
    /* Where the watch cannot be started the sleep is as long as what it waits for. */
    if (stint_hook_push(&waking->hook, waking_come, waking) != 0)
        waking->hook.pushed_.function_ = NULL;
    waking->suppresses = sti_waking_suppress();
}

void sti_waking_end(struct sti_waking *waking)
{
    if (waking->suppresses)
        sti_waking_restore_scopes();
    if (waking->hook.pushed_.function_ != NULL)
        stint_hook_pop(&waking->hook);
}

bool sti_waking_is_due(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return false;
    sti_interrupt_look(thread->scope, sti_clock_now());
    return sti_interrupt_is_tripped(thread->scope);
}

bool sti_waking_deliver(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (!sti_waking_is_due())
        return false;
    thread->scope->samples++;
    if (sti_interrupt_deliver(thread))
        return true;
    /* There may be no better place for long. */
    sti_interrupt_last_resort(thread, NULL);
    return false;
}

static void scopes_suppress(struct sti_scope *scope, unsigned change)
{
    sti_watch_lock();
    for (; scope != NULL; scope = scope->outer)
        scope->suppressed += change;
    sti_watch_unlock();
}

void sti_waking_suppress_scopes(void)
{
    scopes_suppress(sti_thread_metered->scope, 1);
}

void sti_waking_restore_scopes(void)
{
    scopes_suppress(sti_thread_metered->scope, -1U);
    /* What has come due meanwhile was passed over. */
    sti_hook_wake_if_flagged(sti_thread_metered->scope);
}

/* --- Blocking regions. Calling thread's innermost scope. --- */

static _Thread_local const struct sti_lender *lender;

void sti_blocking_set_lender(const struct sti_lender *new_lender)
{
    lender = new_lender;
}

void sti_blocking_sleep(void)
{
    struct sti_scope *scope = sti_scope_metered();
    if (scope != NULL && lender != NULL && scope->regions++ == 0)
        lender->falls_asleep();
}

bool sti_blocking_awake(void)
{
    struct sti_scope *scope = sti_scope_metered();
    if (scope == NULL || scope->regions == 0 || --scope->regions > 0)
        return false;
    lender->is_awake();
    return true;
}

void stint_blocking_begin(void)
{
    if (sti_process_is_partial())
        return;
    sti_blocking_sleep();
}

void stint_blocking_end(void)
{
    if (!sti_process_is_partial() && sti_blocking_awake())
        sti_interrupt_point(sti_thread_metered);
}

void sti_blocking_close(struct sti_scope *scope)
{
    scope->regions = 0;
    lender->is_awake();
}
