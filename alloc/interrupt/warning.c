/* SPDX-License-Identifier: MIT
 *
 * Warnings before a limit is passed; see warning.h. */
#include "warning.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "alloc/platform/process.h"
#include "alloc/platform/tracing.h"
#include "watch.h"

/* --- From the thread that finds one to the watch. A place is FREE, taken (FILLING) by a compare-and-swap, filled, and
 * FULL (release); the watch, which is one thread, finds it FULL (acquire), copies it, and leaves it FREE (release).
 * Whoever posts waits for nobody: so it may do so in the midst of a malloc, and in a signal handler. */

enum { FREE, FILLING, FULL };
#define PLACES 16

static struct {
    atomic_int state;
    struct sti_waiting_warning waiting;
} places[PLACES];

static struct {
    _Atomic(stint_warning_fn *) function; /* NULL: nobody is told. This and the next one: under the watch's lock */
    void *argument;
} listener;

static void (*diverted)(const stint_warning *warning);

sti_counter sti_warnings[STI_REASONS];

static bool fill_place(const stint_warning *warning)
{
    for (int i = 0; i < PLACES; i++) {
        int state = FREE;
        struct sti_waiting_warning *waiting = &places[i].waiting;
        if (!atomic_compare_exchange_strong_explicit(&places[i].state, &state, FILLING, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        waiting->warning = *warning;
        waiting->name[0] = '\0';
        if (warning->name != NULL)
            strncat(waiting->name, warning->name, sizeof waiting->name - 1);
        atomic_store_explicit(&places[i].state, FULL, memory_order_release);
        return true;
    }
    return false;
}

void sti_warning_post(const stint_warning *warning)
{
    atomic_fetch_add_explicit(&sti_warnings[warning->reason], 1, memory_order_relaxed);
    if (sti_trace_runs())
        sti_trace_interrupt(STI_TRACE_WARNED, (int)warning->reason);
    if (diverted != NULL)
        diverted(warning);
    else if (atomic_load_explicit(&listener.function, memory_order_relaxed) != NULL && fill_place(warning))
        sti_watch_hasten(0);
}

void sti_warning_divert(void (*post)(const stint_warning *warning))
{
    diverted = post;
}

bool sti_warning_take(struct sti_waiting_warning *taken)
{
    for (int i = 0; i < PLACES; i++) {
        if (atomic_load_explicit(&places[i].state, memory_order_acquire) != FULL)
            continue;
        *taken = places[i].waiting;
        atomic_store_explicit(&places[i].state, FREE, memory_order_release);
        return true;
    }
    return false;
}

void sti_warning_notify(void *taken)
{
    struct sti_waiting_warning *waiting = taken;
    sti_watch_lock();
    stint_warning_fn *function = atomic_load_explicit(&listener.function, memory_order_relaxed);
    void *argument = listener.argument;
    sti_watch_unlock();
    if (waiting->warning.name != NULL)
        waiting->warning.name = waiting->name;
    if (function != NULL)
        function(&waiting->warning, argument);
}

int stint_warnings_set(stint_warning_fn *function, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    int error = function != NULL ? sti_watch_have() : 0;
    if (error != 0)
        return error;
    sti_watch_lock();
    atomic_store_explicit(&listener.function, function, memory_order_relaxed);
    listener.argument = arg;
    sti_watch_unlock();
    return 0;
}

/* --- The marks of a scope. --- */

void sti_warning_mark_bytes(struct sti_scope *scope, const stint_budget *budget)
{
    scope->marks.allocated_end = sti_saturating_add(scope->begin, sti_warning_part(budget->allocation, scope->warn));
    scope->marks.held = sti_warning_part(budget->memory, scope->warn);
}

static uint64_t scope_submitted(const struct sti_scope *scope)
{
    return scope->request->submitted_ns != 0 ? scope->request->submitted_ns : scope->start;
}

void sti_warning_mark_time(struct sti_scope *scope, const stint_budget *budget)
{
    uint64_t wall = sti_saturating_add(scope_submitted(scope), sti_warning_part(budget->wall_ns, scope->warn));
    uint64_t run = sti_saturating_add(scope->start, sti_warning_part(budget->run_ns, scope->warn));
    atomic_store_explicit(&scope->marks.time, wall < run ? wall : run, memory_order_relaxed);
    scope->marks.cpu = sti_warning_part(budget->cpu_ns, scope->warn);
    if (sti_scope_cpu_limit(scope) == 0)
        return;
    uint64_t look = sti_saturating_add(scope->start, scope->marks.cpu);
    if (look < scope->cpu.look)
        scope->cpu.look = look;
}

static void warning_post(const struct sti_scope *scope, stint_reason reason, uint64_t used, uint64_t limit)
{
    const stint_warning warning = {
        .reason = reason, .name = scope->request->options->name, .used = used, .limit = limit
    };
    sti_warning_post(&warning);
}

static stint_budget limits_of(const struct sti_scope *scope)
{
    return sti_limits_now(sti_scope_limits(scope), &scope->request->options->budget);
}

void sti_warning_look_at_allocated(struct sti_scope *scope, uint64_t allocated)
{
    if (sti_saturating_add(scope->begin, allocated) <= scope->marks.allocated_end ||
        scope->marks.allocated_end == UINT64_MAX)
        return;
    scope->marks.allocated_end = UINT64_MAX;
    warning_post(scope, STINT_REASON_ALLOCATION_LIMIT, allocated, limits_of(scope).allocation);
}

void sti_warning_look_at_held(struct sti_scope *scope, uint64_t held)
{
    if (held <= scope->marks.held)
        return;
    scope->marks.held = UINT64_MAX;
    warning_post(scope, STINT_REASON_MEMORY_LIMIT, held, limits_of(scope).memory);
}

void sti_warning_look_at_cpu(struct sti_scope *scope, uint64_t used)
{
    if (used <= scope->marks.cpu)
        return;
    scope->marks.cpu = UINT64_MAX;
    warning_post(scope, STINT_REASON_CPU, used, limits_of(scope).cpu_ns);
}

void sti_warning_look_at_time(struct sti_scope *scope, uint64_t now)
{
    uint64_t mark = atomic_load_explicit(&scope->marks.time, memory_order_relaxed);
    if (now < mark || mark == UINT64_MAX)
        return;
    uint64_t begin = scope_submitted(scope);
    uint64_t limit = sti_deadline_watch(scope) - begin;
    uint64_t due = sti_saturating_add(begin, sti_warning_part(limit, scope->warn));
    bool is_due = now >= due; /* the mark may be that of limits which have been changed, and the scope does not know */
    if (atomic_compare_exchange_strong_explicit(&scope->marks.time, &mark, is_due ? UINT64_MAX : due,
                                                memory_order_relaxed, memory_order_relaxed) &&
        is_due)
        warning_post(scope, STINT_REASON_DEADLINE, now - begin, limit);
}
