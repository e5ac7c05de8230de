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

#define STI_REPORT_VIEW 2048 /* words */

/* What was copied last of blocks, where some page of them may not be readable. */
struct sti_report_view {
    uintptr_t begin;
    size_t size;
    uintptr_t words[STI_REPORT_VIEW];
};

struct sti_report_areas {
    struct sti_report_view *view; /* NULL: all can be read where it lies */
    struct sti_report_area *list; /* by address */
    size_t count;
    size_t capacity;
    size_t blocks; /* for which they have room */
    bool failed;   /* there was no memory for some */
};

/* As many bytes as are wanted, or as can be read before a page that cannot; NULL: none. ahead: so many of them and
 * behind them are of use. */
const void *sti_report_copy(struct sti_report_view *view, uintptr_t address, size_t *wanted, size_t ahead);

static inline const void *sti_report_read(struct sti_report_view *view, uintptr_t address, size_t *wanted, size_t ahead)
{
    return __builtin_expect(view == NULL, 1) ? (const void *)address : sti_report_copy(view, address, wanted, ahead);
}

/* What the scope and those inside it hold, when no allocation is under way. */
void sti_report_take_heap(struct stint_report *report, struct sti_scope *scope);

#endif
