/* SPDX-License-Identifier: MIT
 *
 * A report for machines. Errors are the stream's. In the module that writes profiles. */
#ifndef STI_ALLOC_REPORT_JSON_H
#define STI_ALLOC_REPORT_JSON_H

#include "names.h"

void sti_report_write_json(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols);

#endif
