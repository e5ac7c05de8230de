/* SPDX-License-Identifier: MIT
 *
 * The machine's report, written with jansson. */
#include "lines.h"
#include "text.h"

#include <jansson.h>
#include <stdlib.h>

/* The object is ours; NULL: it could not be made, for want of memory. */
static void write_line(FILE *stream, json_t *object)
{
    if (object && json_dumpf(object, stream, JSON_COMPACT) == 0)
        fputc('\n', stream);
    else
        fputs("{}\n", stream);
    json_decref(object);
}

void lines_document(FILE *stream, const parse_document *document, const stint_outcome *outcome)
{
    const stint_usage *usage = &outcome->usage;
    char *file = text_clean(document->path, false);
    /* What a library says when it is stopped adds nothing to the reason. */
    char *detail = text_clean(outcome->reason == STINT_REASON_FAILED ? document->detail : "", false);
    write_line(stream, json_pack("{s:s*, s:s, s:s, s:s, s:i, s:s*, s:I, s:I, s:I, s:I}",
                                 "file", file,
                                 "kind", parse_kind_name(document->kind),
                                 "outcome", stint_status_name(outcome->status),
                                 "reason", stint_reason_name(outcome->reason),
                                 "error", outcome->error,
                                 "detail", detail,
                                 "allocated", (json_int_t)usage->allocated,
                                 "peak", (json_int_t)usage->peak,
                                 "wall_ns", (json_int_t)usage->wall_ns,
                                 "queued_ns", (json_int_t)usage->queued_ns));
    free(file);
    free(detail);
}

void lines_summary(FILE *stream, const lines_totals *totals)
{
    write_line(stream, json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I}}", "summary",
                                 "files", (json_int_t)totals->files,
                                 "ok", (json_int_t)totals->tally.ok,
                                 "error", (json_int_t)totals->tally.error,
                                 "cancelled", (json_int_t)totals->tally.cancelled,
                                 "skipped", (json_int_t)totals->skipped,
                                 "wall_ns", (json_int_t)totals->wall_ns,
                                 "workers", (int)totals->workers,
                                 "max_rss", (json_int_t)totals->max_rss));
}
