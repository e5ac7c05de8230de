/* SPDX-License-Identifier: MIT
 *
 * The machine's report, written with jansson. */
#include "lines.h"
#include "text.h"

#include <jansson.h>
#include <stdlib.h>

/* What is missing from a line for want of memory is left out of it: the line stays one that can be read. */
static void set_text(json_t *object, const char *key, const char *text)
{
    char *clean = text_clean(text, false);
    if (clean)
        json_object_set_new(object, key, json_string(clean));
    free(clean);
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void write_line(FILE *stream, json_t *object)
{
    if (json_dumpf(object, stream, JSON_COMPACT))
        fputs("{}", stream);
    fputc('\n', stream);
    json_decref(object);
}

void lines_document(FILE *stream, const parse_document *document, const stint_outcome *outcome)
{
    json_t *line = json_object();
    set_text(line, "file", document->path);
    set_text(line, "kind", parse_kind_name(document->kind));
    set_text(line, "outcome", stint_status_name(outcome->status));
    set_text(line, "reason", stint_reason_name(outcome->reason));
    set_number(line, "error", (uint64_t)outcome->error);
    /* What a library says when it is stopped adds nothing to the reason. */
    set_text(line, "detail", outcome->reason == STINT_REASON_FAILED ? document->detail : "");
    set_number(line, "allocated", outcome->usage.allocated);
    set_number(line, "peak", outcome->usage.peak);
    set_number(line, "wall_ns", outcome->usage.wall_ns);
    set_number(line, "queued_ns", outcome->usage.queued_ns);
    write_line(stream, line);
}

void lines_summary(FILE *stream, const lines_totals *totals)
{
    json_t *summary = json_object();
    set_number(summary, "files", totals->files);
    set_number(summary, "ok", totals->tally.ok);
    set_number(summary, "error", totals->tally.error);
    set_number(summary, "cancelled", totals->tally.cancelled);
    set_number(summary, "skipped", totals->skipped);
    set_number(summary, "wall_ns", totals->wall_ns);
    set_number(summary, "workers", totals->workers);
    set_number(summary, "max_rss", totals->max_rss);
    json_t *line = json_object();
    json_object_set_new(line, "summary", summary);
    write_line(stream, line);
}
