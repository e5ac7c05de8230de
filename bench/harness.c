/* SPDX-License-Identifier: MIT
 *
 * Measuring one bench; see harness.h. harness_submit's job runs on the pool's thread, the rest on the caller's. */
#include "harness.h"

#include <errno.h>
#include <string.h>

#include "child.h"

#define WARM_ROUNDS 1
#define JOB_MEMORY ((size_t)64 << 20)
#define JOB_NS ((uint64_t)20 * 60 * 1000000000)

struct children {
    struct child list[BENCH_SUBJECTS_MAX];
    size_t count;
};

static void kill_children(void *arg)
{
    const struct children *children = arg;
    for (size_t i = 0; i < children->count; i++)
        child_kill(&children->list[i]);
}

static void end_children(void *arg)
{
    struct children *children = arg;
    for (size_t i = 0; i < children->count; i++)
        child_end(&children->list[i]);
}

static size_t subject_count(const struct bench *bench)
{
    size_t count = 0;
    while (bench->subjects[count].name != NULL)
        count++;
    return count;
}

static int measure(struct job *job, const struct child *child, struct series *series, bool warm)
{
    double answer[BENCH_FIGURES_MAX];
    size_t count = child_measure(child, answer);
    if (count == 0)
        return EIO;
    atomic_fetch_add_explicit(&job->done, 1, memory_order_relaxed);
    if (!warm)
        return 0;
    struct figures sorted = { .list = answer, .count = count, .room = count };
    figures_sort(&sorted);
    bool good = figures_add(&series->turns, figures_quantile(&sorted, 0.5));
    for (size_t i = 0; i < count; i++)
        good = good && figures_add(&series->figures, answer[i]);
    return good ? 0 : ENOMEM;
}

static int measure_in_turns(struct job *job, struct children *children)
{
    const struct bench_subject *subjects = job->bench->subjects;
    for (size_t i = 0; i < children->count; i++) {
        if (!job->series[i].built)
            continue;
        atomic_store_explicit(&job->subject, subjects[i].name, memory_order_relaxed);
        int error =
            child_start(&children->list[i], subjects[i].program, job->bench->name, subjects[i].name, job->workers);
        if (error != 0)
            return error;
    }
    for (size_t round = 0; round < WARM_ROUNDS + job->rounds; round++) {
        for (size_t i = 0; i < children->count; i++) {
            if (!job->series[i].built)
                continue;
            atomic_store_explicit(&job->subject, subjects[i].name, memory_order_relaxed);
            int error = measure(job, &children->list[i], &job->series[i], round >= WARM_ROUNDS);
            if (error != 0)
                return error;
        }
    }
    return 0;
}

/* The task. At its deadline the hook ends the measurement that it waits for; whatever happens, no process is left. */
static int run_job(void *arg, void **value)
{
    struct job *job = arg;
    struct children children = { .count = subject_count(job->bench) };
    stint_guard guard;
    stint_hook hook;
    (void)value;
    int error = stint_hook_push(&hook, kill_children, &children);
    if (error != 0)
        return error;
    stint_guard_push(&guard, end_children, &children);
    error = measure_in_turns(job, &children);
    stint_guard_pop(&guard, true);
    stint_hook_pop(&hook);
    return error;
}

int harness_submit(stint_pool *pool, struct job *job, stint_future **future)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .memory = JOB_MEMORY, .wall_ns = JOB_NS };
    options.name = job->bench->name;
    atomic_store_explicit(&job->done, 0, memory_order_relaxed);
    for (size_t i = 0; i < subject_count(job->bench); i++)
        job->series[i].built = child_program_exists(job->bench->subjects[i].program);
    return stint_submit(pool, run_job, job, &options, future);
}

size_t harness_measurements(const struct job *job)
{
    size_t built = 0;
    for (size_t i = 0; i < subject_count(job->bench); i++)
        built += job->series[i].built;
    return (WARM_ROUNDS + job->rounds) * built;
}

void harness_forget(struct job *job)
{
    memset(job->series, 0, sizeof job->series);
}

bool harness_is_ours(const struct bench *bench, size_t subject)
{
    return strncmp(bench->subjects[subject].name, "stint", 5) == 0;
}

bool harness_has_row(const struct bench *bench, size_t subject)
{
    for (size_t i = 0; bench->subjects[i].name != NULL; i++) {
        if (harness_is_ours(bench, i))
            return harness_is_ours(bench, subject);
    }
    return subject == 0;
}

bool harness_is_compared(const struct bench *bench, size_t ours, size_t other)
{
    return !bench->no_ratios && harness_is_ours(bench, ours) && !harness_is_ours(bench, other);
}

bool harness_compare(const struct job *job, size_t ours, size_t other, struct comparison *comparison)
{
    const struct series *a = &job->series[ours];
    const struct series *b = &job->series[other];
    *comparison = (struct comparison){ .median = 0 };
    if (!a->built || !b->built)
        return false;
    bool good = true;
    for (size_t start = 0; start < job->starts; start++) {
        struct figures pairs = { .list = NULL };
        for (size_t i = start * job->rounds; i < (start + 1) * job->rounds; i++)
            good = good && figures_add(&pairs, a->turns.list[i] / b->turns.list[i]);
        figures_sort(&pairs);
        good = good && figures_add(&comparison->starts, figures_quantile(&pairs, 0.5));
        figures_free(&pairs);
    }
    figures_sort(&comparison->starts);
    comparison->median = figures_quantile(&comparison->starts, 0.5);
    comparison->interval = figures_interval(&comparison->starts);
    if (!good)
        figures_free(&comparison->starts);
    return good;
}

void harness_free(struct job *job)
{
    for (size_t i = 0; i < BENCH_SUBJECTS_MAX; i++) {
        figures_free(&job->series[i].figures);
        figures_free(&job->series[i].turns);
    }
}
