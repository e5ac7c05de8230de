/* SPDX-License-Identifier: MIT
 *
 * The life of a report: made, found again while its task runs, finished, taken and written. Each function says its
 * thread. */
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <stint/account.h>
#include <stint/interrupt.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/utf8.h"
#include "alloc/rollback/roots.h"
#include "alloc/scope/run.h"
#include "alloc/scope/scope.h"
#include "profile_write.h"
#include "report_heap.h"

/* --- Making one. Thread of the scope. */

/* A handler may have found the thread in the midst of the allocator, and of this library. */
static void *map_pages(void)
{
    long pages = syscall(SYS_mmap, NULL, sizeof(struct stint_report), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
    return pages != -1 ? (void *)pages : NULL;
}

struct stint_report *sti_report_make(bool in_handler)
{
    struct stint_report *report = in_handler ? map_pages() : sti_process_lasting_malloc(sizeof *report);
    if (report == NULL)
        return NULL;
    memset(report, 0, offsetof(struct stint_report, tripped));
    memset(&report->heap, 0, offsetof(struct sti_report_heap, classes));
    report->tripped.length = report->delivered.length = 0;
    report->tripped.is_cut = report->delivered.is_cut = false;
    report->is_mapped = in_handler;
    report->stride = 1;
    atomic_init(&report->references, 1);
    return report;
}

void sti_report_free(struct stint_report *report)
{
    sti_process_free((void *)(uintptr_t)report->others.list);
    if (report->is_mapped)
        syscall(SYS_munmap, report, sizeof *report);
    else
        sti_process_free(report);
}

/* The list, and behind it the paths. */
static size_t size_of_others(const struct sti_other_modules *others)
{
    size_t size = others->count * sizeof *others->list;
    for (size_t i = 0; i < others->count; i++)
        size += strlen(others->list[i].path) + 1;
    return size;
}

int sti_report_set_others(struct stint_report *report, const struct sti_other_modules *others)
{
    struct sti_other_module *list = sti_process_malloc(size_of_others(others));
    if (list == NULL)
        return ENOMEM;
    char *room = (char *)&list[others->count];
    for (size_t i = 0; i < others->count; i++) {
        list[i] = others->list[i];
        list[i].path = room;
        room = stpcpy(room, others->list[i].path) + 1;
    }
    sti_process_free((void *)(uintptr_t)report->others.list);
    report->others = (struct sti_other_modules){ .list = list, .count = others->count, .alone = others->alone };
    return 0;
}

/* --- One that another process has made, of which this one has a copy that may say anything. The check makes the copy
 * safe, not true: numbers of entries fit, texts end, values have a name, truth values are 0 or 1. Every reader takes
 * addresses for mere numbers. Any thread. */

#define INTERVAL_MAX 1e18 /* bytes from one sample to the next, which an integer holds */

static void report_limit_count(size_t *count, size_t most)
{
    if (*count > most)
        *count = most;
}

/* Make a byte that is neither 0 nor 1 one of them: no other may be read as a bool. */
static void limit_truth(bool *value)
{
    unsigned char byte;
    memcpy(&byte, value, sizeof byte);
    *value = byte != 0;
}

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
}

static void limit_stack(struct sti_report_stack *stack)
{
    report_limit_count(&stack->length, STI_REPORT_DEPTH);
    limit_truth(&stack->is_cut);
}

static void limit_contents(struct sti_report_contents *contents)
{
    if ((unsigned)contents->kind > STI_REPORT_POINTER)
        contents->kind = STI_REPORT_OTHER;
    end_text(contents->text, sizeof contents->text);
}

/* Shares are said of the blocks that were looked at. */
static void limit_class(struct sti_report_class *class)
{
    report_limit_count(&class->content_count, class->looked_at > 0 ? STI_REPORT_CONTENTS : 0);
    for (size_t i = 0; i < class->content_count; i++)
        limit_contents(&class->contents[i]);
}

static void limit_heap(struct sti_report_heap *heap)
{
    limit_truth(&heap->is_taken);
    report_limit_count(&heap->class_count, STI_REPORT_CLASSES);
    for (size_t i = 0; i < heap->class_count; i++)
        limit_class(&heap->classes[i]);
    report_limit_count(&heap->largest_count, STI_REPORT_LARGEST);
    for (size_t i = 0; i < heap->largest_count; i++)
        limit_contents(&heap->largest[i].contents);
}

static void limit_lists(struct stint_report *report)
{
    report_limit_count(&report->wait_count, STI_REPORT_WAITS);
    report_limit_count(&report->point_count, STI_REPORT_POINTS);
    report_limit_count(&report->root_count, STI_REPORT_ROOTS);
    for (size_t i = 0; i < report->root_count; i++) {
        end_text(report->roots[i].where, sizeof report->roots[i].where);
        end_text(report->roots[i].module, sizeof report->roots[i].module);
    }
    limit_truth(&report->is_sampled);
    if (!(report->interval >= 0 && report->interval <= INTERVAL_MAX)) /* it may be no number */
        report->interval = 0;
    report_limit_count(&report->holder_count, STI_REPORT_HOLDERS);
    for (size_t i = 0; i < report->holder_count; i++)
        report_limit_count(&report->holders[i].length, STI_REPORT_HOLDER_DEPTH);
}

int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report)
{
    const size_t from = offsetof(struct stint_report, is_delivered);
    if (size != sizeof **report)
        return EPROTO;
    struct stint_report *made = sti_report_make(false);
    if (made == NULL)
        return ENOMEM;
    memcpy((char *)made + from, (const char *)bytes + from, sizeof *made - from);
    limit_truth(&made->is_delivered);
    limit_truth(&made->was_elsewhere);
    limit_stack(&made->tripped);
    limit_stack(&made->delivered);
    limit_lists(made);
    limit_heap(&made->heap);
    *report = made;
    return 0;
}

/* --- A scope's. Its thread. */

/* Begin a report. From now on the addresses of the task's locks are remembered, not only their number. */
static void report_begin(struct stint_report *report, struct sti_scope *scope)
{
    report->cpu_begin = sti_processor_clock_about(&scope->thread->processor, sti_clock_now());
    scope->report = report;
    if (sti_thread_metered != NULL && scope->thread->scope == scope && scope->thread->stopped == NULL)
        sti_hold_name_locks(scope);
}

struct stint_report *sti_report_of(struct sti_scope *scope, bool in_handler)
{
    if (scope->report != NULL)
        return scope->report;
    struct stint_report *report = sti_report_make(in_handler);
    if (report != NULL)
        report_begin(report, scope);
    return report;
}

/* --- Its end: with the task's. Thread of the scope, outside of it. */

static void report_copy_name(char *copy, size_t size, const char *name)
{
    sti_utf8_copy(copy, size, name != NULL ? name : "");
}

/* Of all that another thread saw, only where it was outlives that thread's part of the task. */
static void merge_group(struct stint_report *report, const struct sti_scope *scope)
{
    struct stint_report *other =
        scope->share != NULL ? atomic_exchange_explicit(&scope->shared->report, NULL, memory_order_acquire) : NULL;
    if (other == NULL)
        return;
    if (report->tripped.length > 0 && report->wait_count == 0)
        report->delivered = report->tripped;
    report->tripped = other->tripped;
    report->was_elsewhere = true;
    sti_report_free(other);
}

void sti_report_note_begin(struct sti_scope *scope)
{
    if (!scope->is_subtask)
        sti_report_of(scope, false);
}

void sti_report_note_begin_of_end(struct sti_scope *scope)
{
    struct stint_report *report = scope->tripped != STINT_REASON_OUTER ? sti_report_of(scope, false) : NULL;
    scope->thread->reporting = report;
    if (report != NULL && sti_reporting_level(scope) == STINT_REPORT_HEAP && !report->heap.is_taken)
        sti_report_take_heap(report, scope);
    if (scope->thread->sampling.rates != NULL)
        sti_hooks.sampling.end_scope(scope);
}

void sti_report_describe(struct stint_report *report, const stint_options *options, const stint_outcome *outcome)
{
    report->status = outcome->status;
    report->reason = outcome->reason;
    report->error = outcome->error;
    report->usage = outcome->usage;
    if (options == NULL)
        return;
    report->budget = options->budget;
    report->is_named = options->name != NULL;
    report_copy_name(report->name, sizeof report->name, options->name);
    report_copy_name(report->account, sizeof report->account,
                     options->account != NULL ? stint_account_name(options->account) : NULL);
}

static void report_describe(struct stint_report *report, const struct sti_scope *scope, const stint_outcome *outcome)
{
    sti_report_describe(report, scope->request->options, outcome);
    uint64_t deadline = sti_scope_deadline(scope);
    report->budget = sti_limits_now(sti_scope_limits(scope), &report->budget);
    if (deadline != UINT64_MAX && deadline > scope->start)
        report->deadline_ns = deadline - scope->start;
    report->function = (uintptr_t)scope->request->fn + 1;
    merge_group(report, scope);
}

void sti_report_note_end(struct sti_scope *scope, const stint_outcome *outcome)
{
    struct stint_report *report = scope->thread->reporting;
    scope->thread->reporting = NULL;
    report_describe(report, scope, outcome);
    scope->report = NULL;
    stint_report_release(*scope->request->report); /* of an earlier turn of the task */
    *scope->request->report = report;
}

void sti_report_note_kept(struct stint_report *report, const struct sti_root *root, size_t size)
{
    if (report->root_count == STI_REPORT_ROOTS)
        return;
    struct sti_report_root *kept = &report->roots[report->root_count++];
    kept->address = root->address;
    kept->offset = root->offset;
    kept->size = size;
    report_copy_name(kept->where, sizeof kept->where, root->where);
    report_copy_name(kept->module, sizeof kept->module, root->module);
}

/* --- The public functions. Any thread. --- */

stint_report *stint_report_retain(stint_report *report)
{
    if (report != NULL)
        atomic_fetch_add_explicit(&report->references, 1, memory_order_relaxed);
    return report;
}

void stint_report_release(stint_report *report)
{
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with it before it frees it. */
    if (report != NULL && atomic_fetch_sub_explicit(&report->references, 1, memory_order_acq_rel) == 1)
        sti_report_free(report);
}

int stint_run_reported(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                       stint_report **report)
{
    static const stint_options no_limits = STINT_OPTIONS_INIT;
    stint_options room;
    int error = fn != NULL && outcome != NULL && report != NULL ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    *report = NULL;
    sti_interrupt_near_stack_end();
    error = sti_run_taken(fn, arg, options != NULL ? options : &no_limits, outcome, report, NULL);
    if (error == 0 && *report == NULL && sti_thread_metered != NULL)
        sti_interrupt_point(sti_thread_metered);
    return error;
}

/* --- The writing of a report: in the module that writes profiles (report_write.c), which is loaded when it is first
 * needed. Any thread; one at a time, as profiles are. */

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* Where the inner parts are linked into a program, so is the module. */
extern sti_report_writer_fn sti_report_writer __attribute__((weak, visibility("hidden")));

struct wanted {
    const stint_report *report;
    stint_report_kind kind;
};

static int report_make(const struct sti_profile_means *means, const void *arg, FILE *stream)
{
    const struct wanted *wanted = arg;
    sti_report_writer_fn *writer = sti_profile_find(means, "sti_report_writer", (void *)sti_report_writer);
    return writer != NULL ? writer(wanted->report, means->demangle, stream, wanted->kind) : ELIBACC;
}

int stint_report_write(const stint_report *report, int fd, stint_report_kind kind)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (report == NULL || (unsigned)kind > STINT_REPORT_PPROF)
        return EINVAL;
    stint_mask();
    return sti_profile_output_and_unmask(fd, &writing, report_make, &(struct wanted){ .report = report, .kind = kind });
}
