/* SPDX-License-Identifier: MIT
 *
 * Findings; see finding.h. */
#include "finding.h"

#include <string.h>

static size_t index_of(const struct bench *bench, const char *subject)
{
    size_t i = 0;
    while (strcmp(bench->subjects[i].name, subject) != 0)
        i++;
    return i;
}

static const struct bench_target *target_of_ratio(const struct bench *bench, size_t ours, size_t other)
{
    for (const struct bench_target *target = bench->targets; target->subject != NULL; target++) {
        if (target->statistic == BENCH_RATIO && index_of(bench, target->subject) == ours &&
            index_of(bench, target->against) == other)
            return target;
    }
    return NULL;
}

static bool compare(const struct job *job, struct finding *finding)
{
    struct comparison comparison;
    if (!harness_compare(job, finding->ours, finding->other, &comparison))
        return false;
    finding->value = comparison.median;
    finding->interval = comparison.interval;
    figures_free(&comparison.starts);
    return true;
}

static bool find_by_target(const struct job *job, const struct bench_target *target, struct finding *finding)
{
    static const char *const names[] = { [BENCH_MEDIAN] = "median", [BENCH_P99] = "p99", [BENCH_MAX] = "max" };
    static const double parts[] = { [BENCH_MEDIAN] = 0.5, [BENCH_P99] = 0.99, [BENCH_MAX] = 1 };
    *finding = (struct finding){ .ours = index_of(job->bench, target->subject), .target = target };
    const struct series *ours = &job->series[finding->ours];
    finding->kind = FINDING_FIGURE;
    finding->statistic = names[target->statistic];
    finding->value = figures_quantile(&ours->figures, parts[target->statistic]);
    if (target->against == NULL)
        return ours->built;
    finding->kind = FINDING_MULTIPLE;
    finding->other = index_of(job->bench, target->against);
    const struct series *other = &job->series[finding->other];
    finding->value /= figures_quantile(&other->figures, 0.5);
    return ours->built && other->built;
}

size_t findings_list(const struct job *job, struct finding list[FINDINGS_MAX])
{
    const struct bench *bench = job->bench;
    size_t count = 0;
    for (size_t i = 0; bench->subjects[i].name != NULL; i++) {
        for (size_t k = 0; bench->subjects[k].name != NULL; k++) {
            list[count] = (struct finding){ .ours = i, .other = k, .kind = FINDING_RATIO };
            if (!harness_is_compared(bench, i, k) || !compare(job, &list[count]))
                continue;
            list[count++].target = target_of_ratio(bench, i, k);
        }
    }
    for (const struct bench_target *target = bench->targets; target->subject != NULL; target++) {
        if (target->statistic != BENCH_RATIO && find_by_target(job, target, &list[count]))
            count++;
    }
    return count;
}

bool finding_is_met(const struct finding *finding)
{
    return finding->value <= finding->target->max;
}

bool finding_is_lost(const struct job *job, const struct finding *finding)
{
    return finding->kind == FINDING_RATIO && !job->bench->subjects[finding->other].bare && finding->interval.low > 1;
}
