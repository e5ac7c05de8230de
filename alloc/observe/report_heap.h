/* SPDX-License-Identifier: MIT
 *
 * What a task had taken, for its report. Thread of the scope only. */
#ifndef STI_ALLOC_OBSERVE_REPORT_HEAP_H
#define STI_ALLOC_OBSERVE_REPORT_HEAP_H

#include "report.h"

struct sti_scope;

/* Take down what the scope and those inside it hold, when no allocation is under way. */
void sti_report_take_heap(struct stint_report *report, const struct sti_scope *scope);

#endif
