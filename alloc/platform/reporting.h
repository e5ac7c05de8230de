/* SPDX-License-Identifier: MIT
 *
 * What the rest of the library tells those who make reports of stopped tasks, which stand above it all (observe/):
 * by hooks (hooks.h). Nothing is called but of a task with a report, and then off the common path:
 * where it is tripped, where its interrupt has to wait or is delivered, where its memory is measured, and where it ends
 * without being Ok. Thread of the scope only, unless a function says otherwise. */
#ifndef STI_ALLOC_PLATFORM_REPORTING_H
#define STI_ALLOC_PLATFORM_REPORTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/interrupt.h>
#include <stint/task.h>

#include "hooks.h"
#include "scope_state.h"
#include "thread.h"

struct stint_report;
struct sti_root;

/* What is to be told of the scope's task: what its options say, or else its pool. Of a stint_run only where somebody
 * takes it. */
static inline stint_report_level sti_reporting_level(const struct sti_scope *scope)
{
    const struct sti_scope_request *request = scope->request;
    if (request->report == NULL)
        return STINT_REPORT_NONE;
    stint_report_level level = request->options->report;
    return level != STINT_REPORT_NONE || request->tally == NULL ? level : scope->thread->report_level;
}

static inline bool sti_reporting_is_on(const struct sti_scope *scope)
{
    return __builtin_expect(sti_reporting_level(scope) != STINT_REPORT_NONE, 0);
}

/* Whether the scope, or one around it, is reported. */
static inline bool sti_reporting_is_on_around(const struct sti_scope *scope)
{
    while (scope != NULL && !sti_reporting_is_on(scope))
        scope = scope->outer;
    return __builtin_expect(scope != NULL, 0);
}

/* The scope has just been tripped: here, or by another thread of its task. */
static inline void sti_reporting_tripped(struct sti_scope *scope)
{
    if (sti_reporting_is_on(scope))
        sti_hooks.reporting.tripped(scope);
}

/* The interrupt of the innermost scope, or of one around it, has to wait for this, which is at that address (NULL: not
 * known); or is delivered. stopped: where a signal has stopped the code, in whose handler this is; NULL: it has come
 * here by itself. */
static inline void sti_reporting_deferred(struct sti_thread *thread, stint_deferral rule, const void *culprit,
                                          const struct sti_registers *stopped)
{
    if (sti_reporting_is_on_around(thread->scope))
        sti_hooks.reporting.deferred(thread, rule, culprit, stopped);
}

static inline void sti_reporting_delivered(struct sti_thread *thread, const struct sti_registers *stopped)
{
    if (sti_reporting_is_on_around(thread->scope))
        sti_hooks.reporting.delivered(thread, stopped);
}

/* The scope holds so much, with what scopes inside it hold. */
static inline void sti_reporting_measured(struct sti_scope *scope, size_t held)
{
    if (sti_reporting_is_on(scope))
        sti_hooks.reporting.measured(scope, held);
}

/* The scope's function has ended, or was never called, for this reason: before and after its rollback. */
static inline bool sti_reporting_will_begin_end(const struct sti_scope *scope, stint_reason reason)
{
    return sti_reporting_is_on(scope) && reason != STINT_REASON_NONE && !scope->is_unheard;
}

static inline void sti_reporting_begin_end(struct sti_scope *scope, stint_reason reason)
{
    if (sti_reporting_will_begin_end(scope, reason))
        sti_hooks.reporting.begin_end(scope);
}

static inline void sti_reporting_end(struct sti_scope *scope, const stint_outcome *outcome)
{
    if (__builtin_expect(scope->thread->reporting != NULL, 0))
        sti_hooks.reporting.end(scope, outcome);
}

/* The scope has ended. If it still has a report nobody reads that: it was Ok, say. */
static inline void sti_reporting_ended(const struct sti_scope *scope)
{
    if (__builtin_expect(scope->report != NULL, 0))
        sti_hooks.reporting.drop(scope->report);
}

/* A root keeps a block of so many bytes of the scope that is being rolled back. */
static inline void sti_reporting_retained(const struct sti_thread *thread, const struct sti_root *root, size_t size)
{
    if (thread != NULL && thread->reporting != NULL)
        sti_hooks.reporting.kept(thread->reporting, root, size);
}

/* Nobody uses the group any more, whose task may not have come to its end. */
static inline void sti_reporting_drop(struct sti_shared_interrupt *shared)
{
    struct stint_report *report = atomic_load_explicit(&shared->report, memory_order_acquire);
    if (report != NULL)
        sti_hooks.reporting.drop(report);
}

#endif
