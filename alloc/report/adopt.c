/* SPDX-License-Identifier: MIT
 *
 * A report that another process has made, of which this one has a copy that may say anything. It is made safe here, not
 * true: numbers of entries fit, texts end and a terminal may show them, values have a name, truth values are 0 or 1.
 * What only belongs to the report's life is not taken over. Addresses are mere numbers to all who read them. Any
 * thread. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "report.h"

#define INTERVAL_MAX 1e18 /* bytes from one sample to the next, which an integer holds */

static void limit(size_t *count, size_t most)
{
    if (*count > most)
        *count = most;
}

/* What is neither 0 nor 1 may not be read as a bool. */
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
    limit(&stack->length, STI_REPORT_DEPTH);
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
    limit(&class->content_count, class->looked_at > 0 ? STI_REPORT_CONTENTS : 0);
    for (size_t i = 0; i < class->content_count; i++)
        limit_contents(&class->contents[i]);
}

static void limit_heap(struct sti_report_heap *heap)
{
    limit_truth(&heap->is_taken);
    limit_truth(&heap->is_searched);
    limit(&heap->class_count, STI_REPORT_CLASSES);
    for (size_t i = 0; i < heap->class_count; i++)
        limit_class(&heap->classes[i]);
    limit(&heap->largest_count, STI_REPORT_LARGEST);
    for (size_t i = 0; i < heap->largest_count; i++)
        limit_contents(&heap->largest[i].contents);
}

static void limit_lists(struct stint_report *report)
{
    limit(&report->wait_count, STI_REPORT_WAITS);
    limit(&report->point_count, STI_REPORT_POINTS);
    limit(&report->root_count, STI_REPORT_ROOTS);
    for (size_t i = 0; i < report->root_count; i++) {
        end_text(report->roots[i].where, sizeof report->roots[i].where);
        end_text(report->roots[i].module, sizeof report->roots[i].module);
    }
    limit_truth(&report->is_sampled);
    if (!(report->interval >= 0 && report->interval <= INTERVAL_MAX)) /* it may be no number */
        report->interval = 0;
    limit(&report->holder_count, STI_REPORT_HOLDERS);
    for (size_t i = 0; i < report->holder_count; i++)
        limit(&report->holders[i].length, STI_REPORT_HOLDER_DEPTH);
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
