/* SPDX-License-Identifier: MIT
 *
 * The table for people; see table.h. */
#include "table.h"

#include <math.h>

#include "finding.h"

#define BUCKETS 24 /* of the histogram, each twice as wide as the one before; the last takes the rest */
#define BAR 50

static void print_number(FILE *out, double number)
{
    int decimals = number >= 1000 || number == round(number) ? 0 : number >= 100 ? 1 : number >= 1 ? 2 : 3;
    fprintf(out, " %11.*f", decimals, number);
}

static void print_subjects(const struct job *job, FILE *out)
{
    fprintf(out, "  %-22s %11s %11s %11s %11s %7s\n", "", "median", "min", "max", "p99", "n");
    for (size_t i = 0; job->bench->subjects[i].name != NULL; i++) {
        const struct bench_subject *subject = &job->bench->subjects[i];
        const struct figures *figures = &job->series[i].figures;
        fprintf(out, "  %-22s", subject->name);
        if (!job->series[i].built) {
            fprintf(out, " not built: %s is missing\n", subject->package != NULL ? subject->package : subject->program);
            continue;
        }
        print_number(out, figures_quantile(figures, 0.5));
        print_number(out, figures_quantile(figures, 0));
        print_number(out, figures_quantile(figures, 1));
        print_number(out, figures_quantile(figures, 0.99));
        fprintf(out, " %7zu\n", figures->count);
    }
}

static void print_finding(const struct job *job, const struct finding *finding, FILE *out)
{
    const struct bench_subject *subjects = job->bench->subjects;
    const char *unit = finding->kind == FINDING_FIGURE ? job->bench->unit : "";
    const char *ours = subjects[finding->ours].name;
    char name[128];
    if (finding->kind == FINDING_FIGURE)
        snprintf(name, sizeof name, "%s, %s", ours, finding->statistic);
    else if (finding->kind == FINDING_MULTIPLE)
        snprintf(name, sizeof name, "%s, %s / %s", ours, finding->statistic, subjects[finding->other].name);
    else
        snprintf(name, sizeof name, "%s / %s", ours, subjects[finding->other].name);
    fprintf(out, "  %-28s %.4g", name, finding->value);
    if (finding->kind == FINDING_RATIO)
        fprintf(out, " (%.4g to %.4g)", finding->interval.low, finding->interval.high);
    if (finding->target != NULL)
        fprintf(out, "   target: at most %.10g%s%s: %s", finding->target->max, unit[0] != '\0' ? " " : "", unit,
                finding_is_met(finding) ? "met" : "MISSED");
    fprintf(out, "\n");
}

static void print_histogram(const struct figures *figures, const char *unit, FILE *out)
{
    static const char bar[BAR + 1] = "##################################################";
    size_t buckets[BUCKETS] = { 0 };
    size_t max = 0;
    for (size_t i = 0; i < figures->count; i++) {
        size_t bucket = 0;
        while (bucket < BUCKETS - 1 && figures->list[i] >= ldexp(125, (int)bucket))
            bucket++;
        if (++buckets[bucket] > max)
            max = buckets[bucket];
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        if (buckets[i] == 0)
            continue;
        if (i < BUCKETS - 1)
            fprintf(out, "  < %10.0f %s", ldexp(125, (int)i), unit);
        else
            fprintf(out, "      and more  ");
        fprintf(out, "  %6zu  %.*s\n", buckets[i], (int)(buckets[i] * BAR / max), bar);
    }
}

size_t table_print(const struct job *job, FILE *out)
{
    struct finding findings[FINDINGS_MAX];
    size_t count = findings_list(job, findings);
    size_t missed = 0;
    fprintf(out, "\n%s   %s; %s, %u %s\n", job->bench->name, job->bench->what, job->bench->unit, job->workers,
            job->workers == 1 ? "worker" : "workers");
    print_subjects(job, out);
    for (size_t i = 0; i < count; i++) {
        print_finding(job, &findings[i], out);
        missed += findings[i].target != NULL && !finding_is_met(&findings[i]);
    }
    if (job->bench->histogram)
        print_histogram(&job->series[0].figures, job->bench->unit, out);
    fflush(out);
    return missed;
}
