/* SPDX-License-Identifier: MIT
 *
 * The table of docs/benchmarks.md; see markdown.h. */
#include "markdown.h"

#include <math.h>
#include <string.h>

#include "finding.h"

/* 5.91 ns, 12.8 ms, 1.34 of no unit, 47,488 bytes: three digits and a unit for people. */
static void print_figure(double value, const char *unit, FILE *out)
{
    static const char *const times[] = { "ns", "µs", "ms", "s" };
    size_t scale = strncmp(unit, "ns", 2) == 0 ? 0 : strcmp(unit, "us") == 0 ? 1 : strcmp(unit, "ms") == 0 ? 2 : 4;
    if (scale < 4) {
        while (scale < 3 && fabs(value) >= 1000) {
            value /= 1000;
            scale++;
        }
        unit = times[scale];
    }
    int decimals = fabs(value) >= 100 || value == round(value) ? 0 : fabs(value) >= 10 ? 1 : fabs(value) >= 1 ? 2 : 3;
    fprintf(out, "%.*f%s%s", decimals, value, strcmp(unit, "ratio") == 0 ? "" : " ",
            strcmp(unit, "ratio") == 0     ? ""
            : strcmp(unit, "percent") == 0 ? "%"
                                           : unit);
}

static void print_ratio(const struct job *job, const struct finding *finding, FILE *out)
{
    const char *weight = finding_is_lost(job, finding) ? "**" : "";
    fprintf(out, "%s", weight);
    print_figure(finding->value, "ratio", out);
    fprintf(out, "%s (", weight);
    print_figure(finding->interval.low, "ratio", out);
    fprintf(out, " to ");
    print_figure(finding->interval.high, "ratio", out);
    fprintf(out, ")");
}

static void print_ours(const struct job *job, size_t subject, FILE *out)
{
    const struct figures *figures = &job->series[subject].figures;
    fprintf(out, "`%s` ", job->bench->subjects[subject].name);
    print_figure(figures_quantile(figures, 0.5), job->bench->unit, out);
    if (job->bench->histogram || strcmp(job->bench->unit, "bytes") == 0) {
        fprintf(out, ", p99 ");
        print_figure(figures_quantile(figures, 0.99), job->bench->unit, out);
        fprintf(out, ", most ");
        print_figure(figures_quantile(figures, 1), job->bench->unit, out);
    }
}

static void print_peer(const struct job *job, size_t subject, FILE *out)
{
    fprintf(out, "`%s` ", job->bench->subjects[subject].name);
    if (job->series[subject].built)
        print_figure(figures_quantile(&job->series[subject].figures, 0.5), job->bench->unit, out);
    else
        fprintf(out, "was not built");
}

static const struct finding *ratio_of(const struct finding *findings, size_t count, size_t ours, size_t other)
{
    for (size_t i = 0; i < count; i++) {
        if (findings[i].kind == FINDING_RATIO && findings[i].ours == ours && findings[i].other == other)
            return &findings[i];
    }
    return NULL;
}

static void print_peers(const struct job *job, const struct finding *findings, size_t count, size_t ours, FILE *out)
{
    const char *separator = "";
    for (size_t i = 0; job->bench->subjects[i].name != NULL; i++) {
        if (harness_has_row(job->bench, i))
            continue;
        fprintf(out, "%s", separator);
        print_peer(job, i, out);
        const struct finding *ratio = ratio_of(findings, count, ours, i);
        if (ratio != NULL) {
            fprintf(out, ": ");
            print_ratio(job, ratio, out);
        }
        separator = "<br>";
    }
}

static void print_targets(const struct job *job, const struct finding *findings, size_t count, size_t ours, FILE *out)
{
    const char *separator = "";
    for (size_t i = 0; i < count; i++) {
        const struct finding *finding = &findings[i];
        if (finding->target == NULL || finding->ours != ours)
            continue;
        fprintf(out, "%s", separator);
        separator = "<br>";
        if (finding->kind != FINDING_RATIO)
            fprintf(out, "%s ", finding->statistic);
        print_figure(finding->target->max, finding->kind == FINDING_FIGURE ? job->bench->unit : "ratio", out);
        if (finding->kind != FINDING_FIGURE)
            fprintf(out, " of `%s`", job->bench->subjects[finding->other].name);
        if (finding->kind == FINDING_MULTIPLE) {
            fprintf(out, ", is ");
            print_figure(finding->value, "ratio", out);
        }
        fprintf(out, ": %s", finding_is_met(finding) ? "met" : "**missed**");
    }
}

void markdown_begin(FILE *out)
{
    fprintf(out, "| bench | workers | ours | beside, and our part of it | target |\n");
    fprintf(out, "| --- | --- | --- | --- | --- |\n");
}

void markdown_print(const struct job *job, FILE *out)
{
    struct finding findings[FINDINGS_MAX];
    size_t count = findings_list(job, findings);
    if (job->broken)
        fprintf(out, "| `%s` | %u | could not be measured | | |\n", job->bench->name, job->workers);
    for (size_t i = 0; job->bench->subjects[i].name != NULL; i++) {
        if (!harness_has_row(job->bench, i) || !job->series[i].built)
            continue;
        fprintf(out, "| `%s` | %u | ", job->bench->name, job->workers);
        print_ours(job, i, out);
        fprintf(out, " | ");
        print_peers(job, findings, count, i, out);
        fprintf(out, " | ");
        print_targets(job, findings, count, i, out);
        fprintf(out, " |\n");
    }
}
