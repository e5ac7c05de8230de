/* SPDX-License-Identifier: MIT
 *
 * What Ctrl-C makes of files that did not end by themselves; see run.h. */
#include "run.h"

#include <errno.h>
#include <stdio.h>

static void report_cancelled(const struct run *run, size_t index, const char *why)
{
    const paths_file *file = &run->paths->files[index];
    parse_document document = { .path = file->path, .kind = file->kind };
    stint_outcome outcome = { .status = STINT_CANCELLED, .reason = STINT_REASON_TOKEN, .error = ECANCELED };
    snprintf(outcome.message, sizeof outcome.message, "%s", why);
    report_document(run->report, &document, &outcome, NULL);
}

void run_report_unbegun(const struct run *run, size_t index)
{
    for (; index < run->paths->count; index++)
        report_cancelled(run, index, "");
}

void run_report_left(struct run *run, size_t index, bool begun)
{
    run->left = true;
    report_cancelled(run, index,
                     !begun      ? ""
                     : run->wall ? "it had not ended when its process was killed"
                                 : "it cannot be stopped in place: it ran until this program ended");
}
