/* SPDX-License-Identifier: MIT
 *
 * In place of the writing of reports, where the libraries for it are missing (docs/profiling.md). Any thread. */
#include <errno.h>
#include <stint/report.h>

int stint_report_write(const stint_report *report, int fd, stint_report_kind kind)
{
    (void)fd;
    return report == NULL || (unsigned)kind > STINT_REPORT_PPROF ? EINVAL : ENOTSUP;
}
