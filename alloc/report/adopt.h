/* SPDX-License-Identifier: MIT
 *
 * A report that another process has made: its bytes there, and what becomes of them here. Any thread. */
#ifndef STI_ALLOC_REPORT_ADOPT_H
#define STI_ALLOC_REPORT_ADOPT_H

#include "report.h"

/* What there is to be copied of a report, in the process that has it. */
const void *sti_report_bytes_of(const struct stint_report *report, size_t *size);

/* Make a report of this process's from such bytes, wherever they come from: what they say may be wrong, but the report
 * can be read and written as any other. 0; EPROTO: what they say cannot be true; ENOMEM. */
int sti_report_adopt(const void *bytes, size_t size, struct stint_report **report);

#endif
