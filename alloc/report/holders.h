/* SPDX-License-Identifier: MIT
 *
 * Who holds a task's memory. Thread of the scope only. */
#ifndef STI_ALLOC_REPORT_HOLDERS_H
#define STI_ALLOC_REPORT_HOLDERS_H

#include "lost.h"

/* Who holds the blocks, from the running profile, if there is one. */
void sti_report_take_holders(struct stint_report *report, const struct sti_scope *scope,
                             const struct sti_report_index *index);

#endif
