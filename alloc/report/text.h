/* SPDX-License-Identifier: MIT
 *
 * A report for people: whole, and as one line. Errors are the stream's. In the module that writes profiles. */
#ifndef STI_ALLOC_REPORT_TEXT_H
#define STI_ALLOC_REPORT_TEXT_H

#include "names.h"

void sti_report_write_text(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols);
void sti_report_write_line(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols);

#endif
