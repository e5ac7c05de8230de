/* SPDX-License-Identifier: MIT
 *
 * The pages and single blocks of a task, as they are looked at for its report. Thread of the scope only; nothing is
 * made or freed there meanwhile. */
#ifndef STI_ALLOC_REPORT_HEAP_H
#define STI_ALLOC_REPORT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

struct sti_scope;

/* Blocks of one size side by side. */
struct sti_report_area {
    uintptr_t begin;
    uintptr_t end;
    size_t size;  /* of each */
    size_t used;  /* that live */
    size_t first; /* the number of its first one, among all */
};

struct sti_report_areas {
    struct sti_report_area *list; /* by address */
    size_t count;
    size_t capacity;
    size_t blocks; /* for which they have room */
    bool failed;   /* there was no memory for some */
};

/* What the scope and those inside it hold, when no allocation is under way. */
void sti_report_take_heap(struct stint_report *report, struct sti_scope *scope);

#endif
