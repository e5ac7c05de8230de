/* SPDX-License-Identifier: MIT
 *
 * Figures; see figure.h. */
#include "figure.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_CHANGE 1.05 /* two runs of one build agree this well */
#define LEAST_PERCENT 0.5 /* of a processor */

static void add(struct figure_list *figures, struct figure figure)
{
    if (figures->count == figures->room) {
        figures->room = figures->room == 0 ? 64 : figures->room * 2;
        figures->list = realloc(figures->list, figures->room * sizeof *figures->list);
        if (figures->list == NULL) {
            fprintf(stderr, "stint-bench: out of memory\n");
            exit(2);
        }
    }
    figures->list[figures->count++] = figure;
}

static struct figure summary(const struct job *job, const char *subject, const char *other, const char *unit,
                             const struct figures *sorted)
{
    struct figure figure = {
        .workers = job->workers,
        .n = sorted->count,
        .median = figures_quantile(sorted, 0.5),
        .min = figures_quantile(sorted, 0),
        .max = figures_quantile(sorted, 1),
        .p99 = figures_quantile(sorted, 0.99),
    };
    snprintf(figure.bench, sizeof figure.bench, "%s", job->bench->name);
    snprintf(figure.subject, sizeof figure.subject, "%s%s%s", subject, other != NULL ? "/" : "",
             other != NULL ? other : "");
    snprintf(figure.unit, sizeof figure.unit, "%s", unit);
    return figure;
}

void figure_collect(struct figure_list *figures, const struct job *job)
{
    const struct bench_subject *subjects = job->bench->subjects;
    for (size_t i = 0; subjects[i].name != NULL; i++) {
        if (job->series[i].built)
            add(figures, summary(job, subjects[i].name, NULL, job->bench->unit, &job->series[i].figures));
    }
    for (size_t i = 0; subjects[i].name != NULL; i++) {
        for (size_t k = 0; subjects[k].name != NULL; k++) {
            struct comparison ratio;
            if (!harness_is_compared(job->bench, i, k) || !harness_compare(job, i, k, &ratio))
                continue;
            add(figures, summary(job, subjects[i].name, subjects[k].name, "ratio", &ratio.starts));
            figures_free(&ratio.starts);
        }
    }
}

void figure_write(const struct figure_list *figures, FILE *out)
{
    for (size_t i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->list[i];
        fprintf(out,
                "{\"bench\":\"%s\",\"subject\":\"%s\",\"workers\":%u,\"unit\":\"%s\",\"n\":%zu,\"median\":%.6g,"
                "\"min\":%.6g,\"max\":%.6g,\"p99\":%.6g}\n",
                figure->bench, figure->subject, figure->workers, figure->unit, figure->n, figure->median, figure->min,
                figure->max, figure->p99);
    }
}

bool figure_read(struct figure_list *figures, const char *path)
{
    FILE *in = fopen(path, "r");
    if (in == NULL) {
        fprintf(stderr, "stint-bench: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool good = true;
    json_t *line;
    json_error_t fault;
    while (good && (line = json_loadf(in, JSON_DISABLE_EOF_CHECK, &fault)) != NULL) {
        const char *bench, *subject, *unit;
        json_int_t workers, n;
        struct figure figure = { .n = 0 };
        good = json_unpack_ex(line, &fault, 0, "{s:s,s:s,s:I,s:s,s:I,s:F,s:F,s:F,s:F}", "bench", &bench, "subject",
                              &subject, "workers", &workers, "unit", &unit, "n", &n, "median", &figure.median, "min",
                              &figure.min, "max", &figure.max, "p99", &figure.p99) == 0;
        if (good) {
            snprintf(figure.bench, sizeof figure.bench, "%s", bench);
            snprintf(figure.subject, sizeof figure.subject, "%s", subject);
            snprintf(figure.unit, sizeof figure.unit, "%s", unit);
            figure.workers = (unsigned)workers;
            figure.n = (size_t)n;
            add(figures, figure);
        }
        json_decref(line);
    }
    good = good && json_error_code(&fault) == json_error_premature_end_of_input && figures->count > 0;
    if (!good)
        fprintf(stderr, "stint-bench: %s is not a file of figures: %s\n", path, fault.text);
    fclose(in);
    return good;
}

static const struct figure *find(const struct figure_list *figures, const struct figure *like)
{
    for (size_t i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->list[i];
        if (strcmp(figure->bench, like->bench) == 0 && strcmp(figure->subject, like->subject) == 0 &&
            strcmp(figure->unit, like->unit) == 0 && figure->workers == like->workers)
            return figure;
    }
    return NULL;
}

static bool has_ratio(const struct figure_list *figures, const struct figure *like)
{
    for (size_t i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->list[i];
        if (strcmp(figure->bench, like->bench) == 0 && strcmp(figure->unit, "ratio") == 0)
            return true;
    }
    return false;
}

/* Where there is a peer only the ratio to it counts: it does not move with the machine's mood. */
static bool is_compared(const struct figure_list *figures, const struct figure *figure)
{
    return strncmp(figure->subject, "stint", 5) == 0 &&
           (strcmp(figure->unit, "ratio") == 0 || !has_ratio(figures, figure));
}

static bool is_slower(const struct figure *old, const struct figure *now)
{
    if (strcmp(now->unit, "bytes") == 0)
        return now->max > old->max * LEAST_CHANGE;
    if (strcmp(now->unit, "percent") == 0)
        return now->median > old->median + LEAST_PERCENT && now->median > old->max;
    if (now->median <= old->median * LEAST_CHANGE)
        return false;
    if (strcmp(now->unit, "ratio") == 0)
        return now->min > old->max;
    return now->min > old->median || now->median > old->p99;
}

static bool differs(const struct figure *old, const struct figure *now)
{
    return now->median > old->median * LEAST_CHANGE || old->median > now->median * LEAST_CHANGE;
}

static bool intervals_meet(const struct figure *old, const struct figure *now)
{
    return now->min <= old->max && old->min <= now->max;
}

/* How well two runs of one build agree. */
static void print_agreement(const struct figure_list *old, const struct figure_list *now, FILE *out)
{
    size_t ratios = 0;
    size_t different = 0;
    size_t apart = 0;
    for (size_t i = 0; i < now->count; i++) {
        const struct figure *figure = &now->list[i];
        const struct figure *before = find(old, figure);
        if (before == NULL || strcmp(figure->unit, "ratio") != 0)
            continue;
        ratios++;
        if (!differs(before, figure))
            continue;
        different++;
        if (intervals_meet(before, figure))
            continue;
        apart++;
        fprintf(out, "DIFFERS %s %s, workers %u: %.4g (%.4g to %.4g), was %.4g (%.4g to %.4g)\n", figure->bench,
                figure->subject, figure->workers, figure->median, figure->min, figure->max, before->median, before->min,
                before->max);
    }
    fprintf(out, "Of %zu ratios %zu differ by more than %.0f %%, %zu of them by more than their starts do.\n", ratios,
            different, (LEAST_CHANGE - 1) * 100, apart);
}

size_t figure_compare(const struct figure_list *old, const struct figure_list *now, const char *old_path, FILE *out)
{
    size_t compared = 0;
    size_t slower = 0;
    for (size_t i = 0; i < now->count; i++) {
        const struct figure *figure = &now->list[i];
        const struct figure *before = find(old, figure);
        if (before == NULL || !is_compared(now, figure))
            continue;
        compared++;
        if (!is_slower(before, figure))
            continue;
        slower++;
        fprintf(out, "SLOWER  %s %s: %.4g %s (%.4g to %.4g), was %.4g (%.4g to %.4g)\n", figure->bench, figure->subject,
                figure->median, figure->unit, figure->min, figure->max, before->median, before->min, before->max);
    }
    print_agreement(old, now, out);
    fprintf(out, "Compared %zu figures with %s: %zu got worse beyond the noise.\n", compared, old_path, slower);
    return slower;
}

void figure_free(struct figure_list *figures)
{
    free(figures->list);
    *figures = (struct figure_list){ .list = NULL };
}
