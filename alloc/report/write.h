/* SPDX-License-Identifier: MIT
 *
 * The writing of a report, between the library and the module that writes profiles. */
#ifndef STI_ALLOC_REPORT_WRITE_H
#define STI_ALLOC_REPORT_WRITE_H

#include "report.h"

/* What writes all kinds but PPROF, in the module that writes profiles: found there by this name. 0; ENOMEM; what
 * write() reports. One thread at a time. */
typedef int sti_report_writer_fn(const struct stint_report *report,
                                 char *(*demangle)(const char *, char *, size_t *, int *), int fd,
                                 stint_report_kind kind);
#define STI_REPORT_WRITER "sti_report_writer"

#endif
