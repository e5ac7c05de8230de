/* SPDX-License-Identifier: MIT
 *
 * The machine's report, written with jansson. */
#include "lines.h"
#include "arguments.h"
#include "fields.h"

#include <errno.h>
#include <string.h>

int lines_open(const char *name, FILE **stream)
{
    *stream = !name ? NULL : strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    return !name || *stream ? 0 : arguments_complain(name, errno);
}

int lines_check(const char *name, FILE *stream)
{
    errno = 0;
    if (!stream || (fflush(stream) == 0 && !ferror(stream)))
        return 0;
    return arguments_complain(name, errno ? errno : EIO);
}

void lines_close(FILE *stream)
{
    if (stream && stream != stdout)
        fclose(stream);
}

static void write_line(FILE *stream, json_t *object)
{
    if (json_dumpf(object, stream, JSON_COMPACT))
        fputs("{}", stream);
    fputc('\n', stream);
    json_decref(object);
}

void lines_document(FILE *stream, const parse_document *document, const stint_outcome *outcome, const char *detail)
{
    json_t *line = json_object();
    fields_set_text(line, "file", document->path);
    fields_set_text(line, "kind", parse_kind_name(document->kind));
    fields_set_outcome(line, outcome, detail);
    write_line(stream, line);
}

void lines_summary(FILE *stream, const lines_totals *totals)
{
    json_t *summary = json_object();
    fields_set_number(summary, "files", totals->files);
    fields_set_number(summary, "ok", totals->tally.ok);
    fields_set_number(summary, "error", totals->tally.error);
    fields_set_number(summary, "cancelled", totals->tally.cancelled);
    fields_set_number(summary, "skipped", totals->skipped);
    fields_set_number(summary, "wall_ns", totals->wall_ns);
    fields_set_number(summary, "workers", totals->workers);
    fields_set_number(summary, "max_rss", totals->max_rss);
    json_t *line = json_object();
    json_object_set_new(line, "summary", summary);
    write_line(stream, line);
}
