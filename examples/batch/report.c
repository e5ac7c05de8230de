/* SPDX-License-Identifier: MIT
 *
 * What the user sees: progress, table and summary, on the main thread. The JSON lines are written in lines.c. */
#include "report.h"
#include "clock.h"
#include "lines.h"
#include "text.h"
#include "why.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DRAW_EVERY_NS UINT64_C(100000000)
#define BAR_WIDTH 20
#define WIDEST_NAME 60

/* A row of the table: kept until the end, so only of what was not Ok. */
struct row {
    const char *path;
    char *detail; /* NULL: nothing to add */
    char *why;    /* likewise */
    stint_status status;
    stint_reason reason;
    uint64_t allocated, wall_ns;
};

struct report {
    report_options options;
    bool bar;
    uint64_t begun_ns, drawn_ns;
    report_tally tally;
    uint64_t items, allocated;
    struct row *rows;
    size_t row_count, row_room;
    size_t rows_lost; /* for want of memory */
    size_t files;     /* so far */
    int why_error;    /* the first */
};

struct report *report_begin(const report_options *options)
{
    struct report *report = calloc(1, sizeof *report);
    if (report) {
        report->options = *options;
        report->bar = !options->quiet && isatty(STDERR_FILENO);
        report->begun_ns = clock_now();
    }
    return report;
}

void report_count(report_tally *tally, stint_status status)
{
    tally->ok += status == STINT_OK;
    tally->error += status == STINT_ERROR;
    tally->cancelled += status == STINT_CANCELLED;
}

/* What there is to say of it beside its reason; empty: nothing. What a library says when it is stopped adds nothing.
 * why: of a crash it says more than the message does; may be NULL. */
static const char *detail_of(const parse_document *document, const stint_outcome *outcome, const char *why)
{
    if (outcome->reason == STINT_REASON_FAILED)
        return document->detail;
    return outcome->reason == STINT_REASON_CRASH && why ? why : outcome->message;
}

/* why: a line, and from here on the row's; may be NULL. */
static void keep_row(struct report *report, const parse_document *document, const stint_outcome *outcome, char *why)
{
    if (report->row_count == report->row_room) {
        size_t room = report->row_room ? 2 * report->row_room : 64;
        struct row *rows = reallocarray(report->rows, room, sizeof *rows);
        if (!rows) {
            report->rows_lost++;
            free(why);
            return;
        }
        report->rows = rows;
        report->row_room = room;
    }
    report->rows[report->row_count++] = (struct row){
        .path = document->path,
        .detail = why ? NULL : text_clean(detail_of(document, outcome, NULL), true),
        .why = why,
        .status = outcome->status,
        .reason = outcome->reason,
        .allocated = outcome->usage.allocated,
        .wall_ns = outcome->usage.wall_ns,
    };
}

static void save_why(struct report *report, const parse_document *document, const stint_report *why)
{
    int error = why_save(why, report->options.why, report->files, document->path);
    if (error && !report->why_error)
        report->why_error = error;
}

/* Whether a report's line says something: where it was, of a crash; and what it held, which nobody knows of a walled
 * one that was killed. */
static bool has_line(const stint_outcome *outcome)
{
    return outcome->reason == STINT_REASON_CRASH ||
           (outcome->reason != STINT_REASON_FAILED && outcome->usage.allocated > 0);
}

static bool wants_row(const struct report *report, const stint_outcome *outcome)
{
    return outcome->status != STINT_OK && !report->options.quiet;
}

void report_line(struct report *report, const parse_document *document, const stint_outcome *outcome, char *why)
{
    report->files++;
    report_count(&report->tally, outcome->status);
    report->allocated += outcome->usage.allocated;
    if (outcome->status == STINT_OK)
        report->items += document->items;
    if (report->options.json)
        lines_document(report->options.json, document, outcome, detail_of(document, outcome, why));
    if (wants_row(report, outcome))
        keep_row(report, document, outcome, why);
    else
        free(why);
}

void report_document(struct report *report, const parse_document *document, const stint_outcome *outcome,
                     const stint_report *why)
{
    bool wanted = wants_row(report, outcome) || (report->options.json && outcome->reason == STINT_REASON_CRASH);
    bool line = why && wanted && has_line(outcome);
    report_line(report, document, outcome, line ? why_line(why) : NULL);
    if (why && report->options.why)
        save_why(report, document, why);
}

void report_workers(struct report *report, unsigned workers)
{
    report->options.workers = workers;
}

bool report_progress_due(const struct report *report)
{
    return report->bar && clock_now() - report->drawn_ns >= DRAW_EVERY_NS;
}

void report_progress(struct report *report, const report_tally *ahead)
{
    report->drawn_ns = clock_now();
    size_t ok = report->tally.ok + ahead->ok;
    size_t error = report->tally.error + ahead->error;
    size_t cancelled = report->tally.cancelled + ahead->cancelled;
    size_t done = ok + error + cancelled;
    size_t all = report->options.files;
    double seconds = (double)(report->drawn_ns - report->begun_ns) / 1e9;
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', all ? done * BAR_WIDTH / all : BAR_WIDTH);
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r[%s] %zu of %zu, %.0f files/s, %zu ok, %zu error, %zu cancelled", bar, done, all,
            seconds > 0 ? (double)done / seconds : 0, ok, error, cancelled);
    if (done) {
        unsigned long left = (unsigned long)(seconds / (double)done * (double)(all - done) + 0.5);
        fprintf(stderr, ", %lu:%02lu left", left / 60, left % 60);
    }
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void write_table(const struct report *report)
{
    FILE *text = report->options.text;
    size_t width = strlen("file");
    for (size_t i = 0; i < report->row_count; i++) {
        size_t length = text_length(report->rows[i].path);
        if (length > width)
            width = length > WIDEST_NAME ? WIDEST_NAME : length;
    }
    fprintf(text, "%-*s  %-9s  %-12s  %8s  %8s\n", (int)width, "file", "outcome", "reason", "bytes", "time");
    for (size_t i = 0; i < report->row_count; i++) {
        const struct row *row = &report->rows[i];
        char *name = text_clean(row->path, true);
        size_t length = name ? text_length(name) : 0;
        char size[TEXT_ROOM], duration[TEXT_ROOM];
        fprintf(text, "%s%*s  %-9s  %-12s  %8s  %8s\n", name ? name : "", length < width ? (int)(width - length) : 0,
                "", stint_status_name(row->status), stint_reason_name(row->reason),
                text_write_size(size, row->allocated), text_write_duration(duration, row->wall_ns));
        if (row->detail && row->detail[0])
            fprintf(text, "    %s\n", row->detail);
        if (row->why)
            fprintf(text, "    %s\n", row->why);
        free(name);
    }
    if (report->rows_lost)
        fprintf(text, "(and %zu more, for which there was no memory)\n", report->rows_lost);
    fputc('\n', text);
}

/* The most memory that this process held at once, in bytes. */
static uint64_t max_rss(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static void write_summary(const struct report *report, uint64_t wall_ns)
{
    const report_options *options = &report->options;
    const report_tally *tally = &report->tally;
    char duration[TEXT_ROOM], rss[TEXT_ROOM], allocated[TEXT_ROOM];
    fprintf(options->text, "%zu files: %zu ok, %zu error, %zu cancelled, %zu skipped; %llu items, ", options->files,
            tally->ok, tally->error, tally->cancelled, options->skipped, (unsigned long long)report->items);
    if (!options->unbounded)
        fprintf(options->text, "%s allocated, ", text_write_size(allocated, report->allocated));
    fprintf(options->text, "%s, %u worker%s, peak memory %s\n", text_write_duration(duration, wall_ns),
            options->workers, options->workers == 1 ? "" : "s", text_write_size(rss, max_rss()));
}

int report_why_error(const struct report *report)
{
    return report->why_error;
}

void report_abandon(struct report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        free(report->rows[i].detail);
        free(report->rows[i].why);
    }
    free(report->rows);
    free(report);
}

report_tally report_end(struct report *report)
{
    uint64_t wall_ns = clock_now() - report->begun_ns;
    const report_options *options = &report->options;
    if (report->bar)
        fputs("\r\033[K", stderr);
    if (report->row_count)
        write_table(report);
    write_summary(report, wall_ns);
    if (options->json)
        lines_summary(options->json, &(lines_totals){ report->tally, options->files, options->skipped, options->workers,
                                                      wall_ns, max_rss() });
    report_tally tally = report->tally;
    report_abandon(report);
    return tally;
}
