/* SPDX-License-Identifier: MIT
 *
 * Who holds a task's blocks: callstacks, as samples tell; and which of them nothing in its memory points to any more.
 * Thread of the scope only. */
#ifndef STI_ALLOC_REPORT_LOST_H
#define STI_ALLOC_REPORT_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "heap.h"

struct sti_heap;
struct sti_scope;

/* The one that the address lies in; NULL: none. Its shortcut is made by sti_report_areas_index. */
struct sti_report_index {
    const struct sti_report_areas *areas;
    uintptr_t begin; /* of all of them, */
    uintptr_t end;
    unsigned shift;
    uint32_t *firsts; /* for each stretch of 2^shift bytes: the first one that ends behind its beginning */
};
bool sti_report_areas_index(struct sti_report_index *index, const struct sti_report_areas *areas);
const struct sti_report_area *sti_report_area_around(const struct sti_report_index *index, uintptr_t address);

/* Look for blocks that no other one, and nothing on the scope's stack, points to; for no longer than is allowed. Each
 * live block that is come across is shown, until enough has been read. */
typedef void sti_report_show_fn(struct stint_report *report, struct sti_report_view *view,
                                const struct sti_report_area *area, uintptr_t block);
void sti_report_search(struct stint_report *report, struct sti_scope *scope, const struct sti_report_index *index,
                       const struct sti_heap *singles, sti_report_show_fn *show);

/* Who holds the blocks, from the samples of its own rate, or else of the running profile, if there is one. */
void sti_report_take_holders(struct stint_report *report, const struct sti_scope *scope,
                             const struct sti_report_index *index);

#endif
