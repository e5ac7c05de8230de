/* SPDX-License-Identifier: MIT
 *
 * The limit on processor time; see cpu.h. */
#include "cpu.h"

#include "clock.h"
#include "scope_state.h"
#include "thread.h"

static uint64_t later(uint64_t now, uint64_t left)
{
    uint64_t time;
    return __builtin_add_overflow(now, left, &time) ? UINT64_MAX : time;
}

/* A scope below that goes on when this one, which is detached from it, has ended. Under one that is detached too, and
 * not measured, there is none: it would be. */
static bool is_measured_below(const struct sti_scope *scope)
{
    const struct sti_scope *below = scope->outer == NULL ? scope->below : NULL;
    while (below != NULL && below->cpu.limit == 0 && below->outer != NULL)
        below = below->below;
    return below != NULL && below->cpu.limit != 0;
}

void sti_cpu_begin(struct sti_scope *scope, uint64_t limit, uint64_t now)
{
    if (limit == 0 && is_measured_below(scope))
        limit = UINT64_MAX;
    scope->cpu.limit = limit;
    scope->cpu.look = limit != 0 ? later(now, limit) : UINT64_MAX;
    if (limit != 0)
        atomic_store_explicit(&scope->cpu.begin, sti_clock_read(CLOCK_THREAD_CPUTIME_ID), memory_order_relaxed);
}

static uint64_t used_by(const struct sti_scope *scope, uint64_t reading)
{
    uint64_t begin = atomic_load_explicit(&scope->cpu.begin, memory_order_relaxed);
    return reading > begin ? reading - begin : 0;
}

uint64_t sti_cpu_end(struct sti_scope *scope)
{
    if (scope->cpu.limit == 0)
        return 0;
    uint64_t used = used_by(scope, sti_clock_read(CLOCK_THREAD_CPUTIME_ID));
    /* The thread's own, of which the watch reads a whole value. */
    for (struct sti_scope *below = scope->outer == NULL ? scope->below : NULL; below != NULL; below = below->below) {
        if (below->cpu.limit != 0)
            atomic_fetch_add_explicit(&below->cpu.begin, used, memory_order_relaxed);
    }
    return used;
}

uint64_t sti_cpu_used(const struct sti_scope *scope)
{
    return used_by(scope, sti_clock_read(CLOCK_THREAD_CPUTIME_ID));
}

bool sti_cpu_is_spent(struct sti_scope *scope, uint64_t now)
{
    if (now < scope->cpu.look)
        return false;
    uint64_t used = used_by(scope, sti_clock_read(CLOCK_THREAD_CPUTIME_ID));
    if (used >= scope->cpu.limit)
        return true;
    scope->cpu.look = later(now, scope->cpu.limit - used);
    return false;
}

uint64_t sti_cpu_watch(const struct sti_scope *scope, uint64_t now)
{
    if (scope->cpu.limit == 0 || scope->cpu.limit == UINT64_MAX)
        return UINT64_MAX;
    uint64_t used = used_by(scope, sti_clock_read(sti_clock_of_thread(scope->thread->id)));
    return used >= scope->cpu.limit ? now : later(now, scope->cpu.limit - used);
}
