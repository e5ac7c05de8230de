/* SPDX-License-Identifier: MIT
 *
 * The table for people; see table.h. */
#include "table.h"

#include <math.h>
#include <string.h>

#define BUCKETS 24 /* of the histogram, each twice as wide as the one before; the last takes the rest */
#define BAR 50

static size_t index_of(const struct bench *bench, const char *subject)
{
    size_t i = 0;
    while (strcmp(bench->subjects[i].name, subject) != 0)
        i++;
    return i;
}

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

static void print_verdict(FILE *out, const struct bench_target *target, double figure, const char *unit, size_t *missed)
{
    bool met = figure <= target->most;
    *missed += !met;
    fprintf(out, "   target: at most %.10g%s%s: %s", target->most, unit[0] != '\0' ? " " : "", unit,
            met ? "met" : "MISSED");
}

static const struct bench_target *find_target(const struct bench *bench, const char *subject, const char *against)
{
    for (const struct bench_target *target = bench->targets; target->subject != NULL; target++) {
        if (target->statistic == BENCH_RATIO && strcmp(target->subject, subject) == 0 &&
            strcmp(target->against, against) == 0)
            return target;
    }
    return NULL;
}

static void print_ratios(const struct job *job, FILE *out, size_t *missed)
{
    const struct bench_subject *subjects = job->bench->subjects;
    for (size_t i = 0; subjects[i].name != NULL; i++) {
        for (size_t k = 0; subjects[k].name != NULL; k++) {
            struct comparison ratio;
            char name[128];
            if (!harness_is_compared(job->bench, i, k) || !harness_compare(job, i, k, false, &ratio))
                continue;
            snprintf(name, sizeof name, "%s / %s", subjects[i].name, subjects[k].name);
            fprintf(out, "  %-28s %.4g (%.4g to %.4g)", name, ratio.median, ratio.interval.low, ratio.interval.high);
            const struct bench_target *target = find_target(job->bench, subjects[i].name, subjects[k].name);
            if (target != NULL)
                print_verdict(out, target, ratio.median, "", missed);
            fprintf(out, "\n");
            figures_free(&ratio.starts);
        }
    }
}

static void print_difference(const struct job *job, const struct bench_target *target, FILE *out, size_t *missed)
{
    struct comparison more;
    char name[128];
    if (!harness_compare(job, index_of(job->bench, target->subject), index_of(job->bench, target->against), true,
                         &more))
        return;
    snprintf(name, sizeof name, "%s - %s", target->subject, target->against);
    fprintf(out, "  %-28s %.4g (%.4g to %.4g)", name, more.median, more.interval.low, more.interval.high);
    print_verdict(out, target, more.median, job->bench->unit, missed);
    fprintf(out, "\n");
    figures_free(&more.starts);
}

static void print_targets(const struct job *job, FILE *out, size_t *missed)
{
    for (const struct bench_target *target = job->bench->targets; target->subject != NULL; target++) {
        static const char *const names[] = { [BENCH_MEDIAN] = "median", [BENCH_P99] = "p99", [BENCH_MAX] = "max" };
        static const double parts[] = { [BENCH_MEDIAN] = 0.5, [BENCH_P99] = 0.99, [BENCH_MAX] = 1 };
        if (target->statistic == BENCH_RATIO)
            continue;
        if (target->statistic == BENCH_DIFFERENCE) {
            print_difference(job, target, out, missed);
            continue;
        }
        char name[128];
        double figure =
            figures_quantile(&job->series[index_of(job->bench, target->subject)].figures, parts[target->statistic]);
        snprintf(name, sizeof name, "%s, %s", target->subject, names[target->statistic]);
        fprintf(out, "  %-28s %.4g", name, figure);
        print_verdict(out, target, figure, job->bench->unit, missed);
        fprintf(out, "\n");
    }
}

static void print_histogram(const struct figures *figures, const char *unit, FILE *out)
{
    static const char bar[BAR + 1] = "##################################################";
    size_t buckets[BUCKETS] = { 0 };
    size_t most = 0;
    for (size_t i = 0; i < figures->count; i++) {
        size_t bucket = 0;
        while (bucket < BUCKETS - 1 && figures->list[i] >= ldexp(125, (int)bucket))
            bucket++;
        if (++buckets[bucket] > most)
            most = buckets[bucket];
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        if (buckets[i] == 0)
            continue;
        if (i < BUCKETS - 1)
            fprintf(out, "  < %10.0f %s", ldexp(125, (int)i), unit);
        else
            fprintf(out, "      and more  ");
        fprintf(out, "  %6zu  %.*s\n", buckets[i], (int)(buckets[i] * BAR / most), bar);
    }
}

size_t table_print(const struct job *job, FILE *out)
{
    size_t missed = 0;
    fprintf(out, "\n%s   %s; %s, %u %s\n", job->bench->name, job->bench->what, job->bench->unit, job->workers,
            job->workers == 1 ? "worker" : "workers");
    print_subjects(job, out);
    print_ratios(job, out, &missed);
    print_targets(job, out, &missed);
    if (job->bench->histogram)
        print_histogram(&job->series[0].figures, job->bench->unit, out);
    fflush(out);
    return missed;
}
