/* SPDX-License-Identifier: MIT
 *
 * A report that another process has made, of which this one has a copy that may say anything. What a writer of reports
 * relies on is looked at here: numbers of entries, texts that end, values that have a name, divisors, and truth values
 * that are 0 or 1. What only belongs to the report's life is not taken over. Addresses are mere numbers to all who read
 * them. Any thread. */
#include "adopt.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define INTERVAL_MAX 1e18 /* bytes from one sample to the next, which an integer holds */

const void *sti_report_bytes_of(const struct stint_report *report, size_t *size)
{
    *size = sizeof *report;
    return report;
}

/* --- Single values. */

/* Looked at as a byte: what is neither may not be read as a bool. */
static bool is_truth(const bool *value)
{
    unsigned char byte;
    memcpy(&byte, value, sizeof byte);
    return byte <= 1;
}

static bool is_ended(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* As it is made, of characters that a terminal shows. */
static bool is_plain_text(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && ((text[i] >= ' ' && text[i] <= '~') || text[i] == '\t' || text[i] == '\n'))
        i++;
    return i < size && text[i] == '\0';
}

/* *sum grows by it. False: it would not fit. */
static bool add_to(size_t *sum, size_t number)
{
    return !__builtin_add_overflow(*sum, number, sum);
}

/* --- What it says of the task. */

/* The status that goes with the reason; STINT_OK: a process cannot say that of its own task in a report. */
static stint_status status_of(stint_reason reason)
{
    switch (reason) {
    case STINT_REASON_FAILED:
    case STINT_REASON_ALLOCATION_LIMIT:
    case STINT_REASON_MEMORY_LIMIT:
    case STINT_REASON_DEADLINE:
    case STINT_REASON_ACCOUNT:
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
    case STINT_REASON_TRACKER:
    case STINT_REASON_CPU:
    case STINT_REASON_EXPIRED:
    case STINT_REASON_EXCEPTION:
    case STINT_REASON_STACK:
        return STINT_ERROR;
    case STINT_REASON_TOKEN:
    case STINT_REASON_SHUTDOWN:
    case STINT_REASON_OUTER:
        return STINT_CANCELLED;
    case STINT_REASON_NONE:
    case STINT_REASON_CRASH:
    case STINT_REASON_EXIT:
    case STINT_REASON_KILLED:
    case STINT_REASON_BROKEN:
        break;
    }
    return STINT_OK;
}

static bool is_head_possible(const struct stint_report *report)
{
    stint_status status = status_of(report->reason);
    return status != STINT_OK && report->status == status && is_truth(&report->is_named) &&
           (report->level == STINT_REPORT_STACK || report->level == STINT_REPORT_HEAP) &&
           (unsigned)report->on_interrupt <= STINT_UNWIND && is_ended(report->name, sizeof report->name) &&
           is_ended(report->account, sizeof report->account);
}

static bool is_stack_possible(const struct sti_report_stack *stack)
{
    return is_truth(&stack->is_cut) && stack->length <= STI_REPORT_DEPTH;
}

static bool are_waits_possible(const struct stint_report *report)
{
    if (report->wait_count > STI_REPORT_WAITS)
        return false;
    for (size_t i = 0; i < report->wait_count; i++) {
        if ((unsigned)report->waits[i].rule > STINT_DEFERRAL_FRAME)
            return false;
    }
    return true;
}

static bool is_where_possible(const struct stint_report *report)
{
    return is_truth(&report->is_delivered) && is_truth(&report->was_elsewhere) && is_stack_possible(&report->tripped) &&
           is_stack_possible(&report->delivered) && are_waits_possible(report) &&
           report->point_count <= STI_REPORT_POINTS;
}

static bool is_known_place(const char *where)
{
    return strcmp(where, "data") == 0 || strcmp(where, "thread-local") == 0 || strcmp(where, "specific") == 0;
}

static bool are_roots_possible(const struct stint_report *report)
{
    if (report->root_count > STI_REPORT_ROOTS)
        return false;
    for (size_t i = 0; i < report->root_count; i++) {
        const struct sti_report_root *root = &report->roots[i];
        if (!is_ended(root->where, sizeof root->where) || !is_known_place(root->where) ||
            !is_ended(root->module, sizeof root->module))
            return false;
    }
    return true;
}

static bool are_holders_possible(const struct stint_report *report)
{
    if (!is_truth(&report->is_sampled) || report->holder_count > STI_REPORT_HOLDERS || !isfinite(report->interval) ||
        report->interval < 0 || report->interval > INTERVAL_MAX)
        return false;
    for (size_t i = 0; i < report->holder_count; i++) {
        if (report->holders[i].length > STI_REPORT_HOLDER_DEPTH)
            return false;
    }
    return report->is_sampled || report->holder_count == 0;
}

/* --- What it says of the heap. */

static bool are_contents_possible(const struct sti_report_contents *contents)
{
    return (unsigned)contents->kind <= STI_REPORT_POINTER &&
           (contents->kind != STI_REPORT_STRING || is_plain_text(contents->text, sizeof contents->text));
}

static bool is_class_possible(const struct sti_report_class *class)
{
    size_t counted = 0;
    if (class->above >= class->size || class->content_count > STI_REPORT_CONTENTS)
        return false;
    for (size_t i = 0; i < class->content_count; i++) {
        const struct sti_report_contents *contents = &class->contents[i];
        counted += contents->count;
        if (!are_contents_possible(contents) || contents->kind == STI_REPORT_OTHER || contents->count == 0)
            return false;
    }
    return counted <= class->looked_at && class->looked_at <= STI_REPORT_LOOKS;
}

static bool are_classes_possible(const struct sti_report_heap *heap)
{
    size_t blocks = 0;
    size_t bytes = 0;
    if (heap->class_count > STI_REPORT_CLASSES)
        return false;
    for (size_t i = 0; i < heap->class_count; i++) {
        const struct sti_report_class *class = &heap->classes[i];
        if (!is_class_possible(class) || (i > 0 && class[-1].size >= class->size) || !add_to(&blocks, class->blocks) ||
            !add_to(&bytes, class->bytes))
            return false;
    }
    return blocks == heap->blocks && bytes == heap->bytes;
}

static bool are_largest_possible(const struct sti_report_heap *heap)
{
    if (heap->largest_count > STI_REPORT_LARGEST)
        return false;
    for (size_t i = 0; i < heap->largest_count; i++) {
        const struct sti_report_block *block = &heap->largest[i];
        if (!are_contents_possible(&block->contents) || (i > 0 && block[-1].size < block->size))
            return false;
    }
    return true;
}

static bool is_heap_possible(const struct sti_report_heap *heap)
{
    size_t all = heap->bytes;
    return is_truth(&heap->is_taken) && is_truth(&heap->is_searched) && are_classes_possible(heap) &&
           are_largest_possible(heap) && add_to(&all, heap->libc_bytes) && add_to(&all, heap->mapped_bytes);
}

/* --- The taking over. */

static bool is_possible(const struct stint_report *report)
{
    return is_head_possible(report) && is_where_possible(report) && are_roots_possible(report) &&
           are_holders_possible(report) && is_heap_possible(&report->heap);
}

/* All from the level on lies together: what is before that is of this process's making. What only this process can
 * know is forgotten. */
static void take_over(struct stint_report *report, const char *bytes)
{
    const size_t from = offsetof(struct stint_report, level);
    memcpy((char *)report + from, bytes + from, sizeof *report - from);
    memcpy(&report->is_delivered, bytes + offsetof(struct stint_report, is_delivered), sizeof report->is_delivered);
    report->is_dead = false;
    report->death = (stint_wall_death){ .signal = 0 };
}

int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report)
{
    if (size != sizeof **report)
        return EPROTO;
    struct stint_report *made = sti_report_make(false);
    if (made == NULL)
        return ENOMEM;
    take_over(made, bytes);
    if (!is_possible(made)) {
        sti_report_free(made);
        return EPROTO;
    }
    *report = made;
    return 0;
}
