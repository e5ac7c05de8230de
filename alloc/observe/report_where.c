/* SPDX-License-Identifier: MIT
 *
 * Where a task was, why it went on from there, and how it came to that: its callstacks, what its interrupt waited for,
 * and the points of its time line. Thread of the scope; a part of it in handlers of signals that have stopped it
 * there. */
#include <time.h>

#include "alloc/heap/held.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/safe.h"
#include "alloc/interrupt/stack.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "report_heap.h"
#include "report_where.h"

/* --- Callstacks. The frames of this library are no part of it: below, those that took it; above, those that called the
 * task's function. */

#define OWN_FRAMES 24 /* at both ends, at most */

/* Code that has been stopped may be at an instruction of its own; all others are about to return there. */
static bool where_is_own(uintptr_t address)
{
    return sti_caller_is_surely_ours((const void *)(address - 1));
}

static bool is_on_own_stack(uintptr_t stack_pointer, const struct sti_scope *scope)
{
    return stack_pointer >= sti_stack_lowest() && stack_pointer < scope->frame;
}

/* Frames of this library's in the midst are those of a stint_run in the task. */
static __attribute__((noinline)) void take_stack(struct sti_report_stack *stack, const struct sti_scope *scope,
                                                 const struct sti_registers *stopped)
{
    void *frames[STI_REPORT_DEPTH + OWN_FRAMES];
    if (stopped == NULL && sti_thread_metered == NULL) /* the task's frames have been left */
        return;
    struct sti_registers at = stopped != NULL ? *stopped : sti_registers_here();
    uintptr_t end = is_on_own_stack(at.sp, scope) ? scope->frame : 0;
    size_t length = sti_callstack_of(at, end, frames, STI_REPORT_DEPTH + OWN_FRAMES);
    size_t kept = 0;
    for (size_t i = 0; i < length; i++) {
        uintptr_t frame = (uintptr_t)frames[i] + (i == 0);
        if (where_is_own(frame))
            continue;
        if (kept < STI_REPORT_DEPTH)
            stack->frames[kept] = frame;
        kept++;
    }
    stack->is_cut = length == STI_REPORT_DEPTH + OWN_FRAMES || kept > STI_REPORT_DEPTH;
    stack->length = kept < STI_REPORT_DEPTH ? kept : STI_REPORT_DEPTH;
}

/* --- The time line. When it is full, each second point goes, and the next ones come half as often. */

static void thin_out(struct stint_report *report)
{
    size_t kept = 0;
    for (size_t i = 0; i < report->point_count; i += 2)
        report->points[kept++] = report->points[i];
    report->point_count = kept;
    report->stride *= 2;
}

static uint64_t where_since(uint64_t begin, uint64_t now)
{
    return begin != 0 && now > begin ? now - begin : 0;
}

static void take_point(struct stint_report *report, const struct sti_scope *scope, uint64_t held, bool always)
{
    if (!always && report->measured++ % report->stride != 0)
        return;
    if (report->point_count == STI_REPORT_POINTS)
        thin_out(report);
    uint64_t now = sti_clock_now();
    report->points[report->point_count++] = (struct sti_report_point){
        .ns = where_since(scope->start, now),
        .cpu_ns = where_since(report->cpu_begin, sti_processor_clock_about(&scope->thread->processor, now)),
        .held = held,
        .allocated = scope->thread->used - scope->begin,
    };
}

void sti_report_note_measurement(struct sti_scope *scope, size_t held)
{
    struct stint_report *report = !scope->is_subtask ? sti_report_of(scope, false) : NULL;
    if (report != NULL && scope->tripped == STINT_REASON_NONE)
        take_point(report, scope, held, false);
}

/* --- What is tripped. */

static size_t held_from(const struct sti_scope *scope)
{
    size_t held = 0;
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer)
        held += sti_heap_held(at);
    return held;
}

static bool wants_heap(const struct sti_scope *scope)
{
    return sti_reporting_level(scope) == STINT_REPORT_HEAP;
}

/* Publish a subtask's report, on its thread: the subtask ends before the task does, and then only the report is
 * left. */
static void where_publish(const struct sti_scope *scope)
{
    struct stint_report *report = sti_report_make(scope->thread->stopped != NULL);
    struct stint_report *none = NULL;
    if (report == NULL)
        return;
    take_stack(&report->tripped, scope, scope->thread->stopped);
    /* release: the thread that takes it sees it whole. */
    if (!atomic_compare_exchange_strong_explicit(&scope->shared->report, &none, report, memory_order_release,
                                                 memory_order_relaxed))
        sti_report_free(report);
}

void sti_report_note_trip(struct sti_scope *scope)
{
    const struct sti_registers *stopped = scope->thread->stopped;
    /* An exception has left the frames that threw it. */
    if (scope->tripped == STINT_REASON_OUTER || scope->tripped == STINT_REASON_EXCEPTION)
        return;
    if (scope->is_subtask) {
        if (scope->share != NULL)
            where_publish(scope);
        return;
    }
    struct stint_report *report = sti_report_of(scope, stopped != NULL);
    if (report == NULL)
        return;
    take_stack(&report->tripped, scope, stopped);
    if (stopped != NULL)
        return;
    take_point(report, scope, held_from(scope), true);
    if (wants_heap(scope))
        sti_report_take_heap(report, scope);
}

/* --- What an interrupt has to wait for. */

static uintptr_t lock_of(const struct sti_holds *holds)
{
    return holds->named > 0 ? (uintptr_t)holds->objects[holds->named - 1] & ~(uintptr_t)STI_HOLD_KINDS : 0;
}

/* The innermost one that is held. */
static uintptr_t object_held(const struct sti_scope *innermost)
{
    uintptr_t object = 0;
    for (const struct sti_scope *scope = innermost; scope != NULL && object == 0; scope = scope->outer)
        object = lock_of(&scope->holds);
    return object;
}

/* Of the innermost frames that may not be left, in a row, the outermost: it is what the task's code has called. */
static uintptr_t awaited_frame(const struct sti_report_stack *stack, enum sti_left way)
{
    struct sti_caller_module last = { .size = 0 };
    uintptr_t found = 0;
    for (size_t i = 0; i < stack->length; i++) {
        bool may_be_left = sti_module_may_be_left(stack->frames[i] - 1, way, &last);
        if (may_be_left && found != 0)
            break;
        if (!may_be_left)
            found = stack->frames[i];
    }
    return found;
}

static uintptr_t what_holds(const struct sti_scope *innermost, stint_deferral rule,
                            const struct sti_report_stack *stack, const struct sti_registers *stopped)
{
    switch (rule) {
    case STINT_DEFERRAL_LOCK:
    case STINT_DEFERRAL_ONCE:
    case STINT_DEFERRAL_STATIC:
        return object_held(innermost);
    case STINT_DEFERRAL_FRAME:
        return awaited_frame(stack, sti_verdict_way(innermost, stopped));
    default:
        return 0;
    }
}

static struct sti_report_wait *where_wait_for(struct stint_report *report, stint_deferral rule)
{
    for (size_t i = 0; i < report->wait_count; i++) {
        if (report->waits[i].rule == rule)
            return &report->waits[i];
    }
    struct sti_report_wait *wait = &report->waits[report->wait_count++];
    *wait = (struct sti_report_wait){ .rule = rule };
    return wait;
}

/* Another thread's trip is found here first. */
static void note_wait(struct stint_report *report, struct sti_scope *scope, stint_deferral rule, const void *culprit,
                      const struct sti_registers *stopped)
{
    struct sti_report_wait *wait = where_wait_for(report, rule);
    if (wait->times++ > 0)
        return;
    struct sti_report_stack *stack = report->tripped.length > 0 ? &report->delivered : &report->tripped;
    take_stack(stack, scope, stopped);
    wait->at = culprit != NULL ? (uintptr_t)culprit : what_holds(scope->thread->scope, rule, stack, stopped);
}

static bool is_reported(const struct sti_scope *scope)
{
    return scope->tripped != STINT_REASON_NONE && scope->tripped != STINT_REASON_OUTER && !scope->is_subtask &&
           sti_reporting_is_on(scope);
}

void sti_report_note_deferral(struct sti_thread *thread, stint_deferral rule, const void *culprit,
                              const struct sti_registers *stopped)
{
    for (struct sti_scope *scope = thread->scope; scope != NULL; scope = scope->outer) {
        struct stint_report *report = is_reported(scope) ? sti_report_of(scope, stopped != NULL) : NULL;
        if (report != NULL && !report->is_delivered)
            note_wait(report, scope, rule, culprit, stopped);
    }
}

/* Where it has not waited, it is where it was tripped. */
static void note_its_delivery(struct stint_report *report, struct sti_scope *scope, const struct sti_registers *stopped)
{
    report->is_delivered = true;
    if (report->tripped.length == 0)
        take_stack(&report->tripped, scope, stopped);
    else if (report->wait_count > 0)
        take_stack(&report->delivered, scope, stopped);
    if (stopped == NULL && wants_heap(scope) && !report->heap.is_taken)
        sti_report_take_heap(report, scope);
}

void sti_report_note_delivery(struct sti_thread *thread, const struct sti_registers *stopped)
{
    for (struct sti_scope *scope = thread->scope; scope != NULL; scope = scope->outer) {
        struct stint_report *report = is_reported(scope) ? sti_report_of(scope, stopped != NULL) : NULL;
        if (report != NULL && !report->is_delivered)
            note_its_delivery(report, scope, stopped);
    }
}
