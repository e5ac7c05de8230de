/* SPDX-License-Identifier: MIT
 *
 * stint_metrics_write: what is counted everywhere else, added up and written as OpenMetrics text. Any thread.
 *
 * The samples of a metric have to lie together, those of all pools. So the numbers are copied first, while the list of
 * pools is held, and written when nothing is. */
#include <errno.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <stint/observe.h>
#include <string.h>

#include "alloc/heap/retained.h"
#include "alloc/interrupt/output.h"
#include "alloc/interrupt/warning.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "pools.h"

enum type { COUNTER, GAUGE, HISTOGRAM };
enum unit { NO_UNIT, SECONDS, BYTES };

struct metric {
    const char *name;
    enum type type;
    enum unit unit;
    const char *help;
};

static void put_head(FILE *stream, const struct metric *metric)
{
    static const char *const types[] = { "counter", "gauge", "histogram" };
    static const char *const units[] = { NULL, "seconds", "bytes" };
    fprintf(stream, "# TYPE %s %s\n", metric->name, types[metric->type]);
    if (metric->unit != NO_UNIT)
        fprintf(stream, "# UNIT %s %s\n", metric->name, units[metric->unit]);
    fprintf(stream, "# HELP %s %s\n", metric->name, metric->help);
}

/* Labels as they are written, between the brackets; empty: none. */
#define LABELS_SIZE (2 * STI_POOL_LABEL_SIZE + 64)
struct labels {
    char text[LABELS_SIZE];
};

static const struct labels none;

static struct labels labels_with(struct labels labels, const char *name, const char *value)
{
    char *end = labels.text + strlen(labels.text);
    end += sprintf(end, "%s%s=\"", end > labels.text ? "," : "", name);
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            *end++ = '\\';
        *end++ = *value == '\n' ? 'n' : *value;
    }
    strcpy(end, "\"");
    return labels;
}

/* Of metrics in seconds it is nanoseconds. */
static void metric_put_number(FILE *stream, enum unit unit, uint64_t value)
{
    if (unit == SECONDS)
        fprintf(stream, "%llu.%09llu", (unsigned long long)(value / 1000000000),
                (unsigned long long)(value % 1000000000));
    else
        fprintf(stream, "%llu", (unsigned long long)value);
}

static void put_series(FILE *stream, const struct metric *metric, const char *suffix, struct labels labels,
                       enum unit unit, uint64_t value)
{
    fprintf(stream, labels.text[0] != '\0' ? "%s%s{%s} " : "%s%s%s ", metric->name, suffix, labels.text);
    metric_put_number(stream, unit, value);
    fputc('\n', stream);
}

static void put_sample(FILE *stream, const struct metric *metric, struct labels labels, uint64_t value)
{
    put_series(stream, metric, metric->type == COUNTER ? "_total" : "", labels, metric->unit, value);
}

/* --- Histograms: powers of four, each two buckets of the counters (tally.h). -------------------------------------- */

#define FIRST_TIME 10  /* 1.024 microseconds, */
#define LAST_TIME 38   /* to 275 seconds */
#define FIRST_NUMBER 8 /* 256 bytes, */
#define LAST_NUMBER 34 /* to 16 GiB */

static struct labels up_to(struct labels labels, const struct metric *metric, unsigned power)
{
    unsigned long long bound = 1ULL << power;
    char text[32];
    if (metric->unit == SECONDS)
        snprintf(text, sizeof text, "%llu.%09llu", bound / 1000000000, bound % 1000000000);
    else
        snprintf(text, sizeof text, "%llu.0", bound);
    return labels_with(labels, "le", text);
}

static void put_histogram(FILE *stream, const struct metric *metric, struct labels labels,
                          const struct sti_histogram *histogram)
{
    bool is_time = metric->unit == SECONDS;
    uint64_t count = sti_counter_read(&histogram->buckets[STI_BUCKET_OF_NONE]);
    unsigned last = is_time ? LAST_TIME : LAST_NUMBER;
    unsigned bucket = 0;
    for (unsigned power = is_time ? FIRST_TIME : FIRST_NUMBER; power <= last; power += 2) {
        while (bucket < power)
            count += sti_counter_read(&histogram->buckets[bucket++]);
        put_series(stream, metric, "_bucket", up_to(labels, metric, power), NO_UNIT, count);
    }
    while (bucket < STI_BUCKET_OF_NONE)
        count += sti_counter_read(&histogram->buckets[bucket++]);
    put_series(stream, metric, "_bucket", labels_with(labels, "le", "+Inf"), NO_UNIT, count);
    put_series(stream, metric, "_count", labels, NO_UNIT, count);
    put_series(stream, metric, "_sum", labels, metric->unit, sti_counter_read(&histogram->sum));
}

/* --- Pools. ------------------------------------------------------------------------------------------------------- */

/* A metric with one number for each pool, and where that is. */
struct pool_metric {
    struct metric metric;
    size_t offset;
    size_t size; /* of the number */
};

#define IN(field) offsetof(struct sti_pool_numbers, field), sizeof(((struct sti_pool_numbers *)NULL)->field)

static uint64_t metric_number(const struct sti_pool_numbers *pool, const struct pool_metric *metric)
{
    const char *place = (const char *)pool + metric->offset;
    return metric->size == sizeof(unsigned) ? *(const unsigned *)place : *(const uint64_t *)place;
}

static const struct pool_metric numbers_of_pools[] = {
    { { "stint_pool_workers", GAUGE, NO_UNIT, "Workers of the pool, without substitutes." }, IN(workers) },
    { { "stint_pool_started_tasks", COUNTER, NO_UNIT, "Tasks that workers have begun." }, IN(started) },
    { { "stint_pool_waiting_tasks", GAUGE, NO_UNIT,
        "Tasks that wait to begin, with cancelled ones not yet taken out." },
      IN(waiting) },
    { { "stint_pool_held_back_tasks", GAUGE, NO_UNIT,
        "Of the waiting tasks, those whose account had its maximum of running ones." },
      IN(statistics.held_back) },
    { { "stint_pool_running_workers", GAUGE, NO_UNIT, "Workers that are in the midst of a task or a part of one." },
      IN(statistics.running) },
    { { "stint_pool_asleep_workers", GAUGE, NO_UNIT,
        "Of the running workers, those that sleep in a blocking region, a wait or a join." },
      IN(statistics.asleep) },
    { { "stint_pool_stolen_tasks", COUNTER, NO_UNIT, "Tasks that a worker took from another worker's deque." },
      IN(steals) },
    { { "stint_pool_stolen_subtasks", COUNTER, NO_UNIT, "Forked subtasks that another worker than their task's ran." },
      IN(forks) },
    { { "stint_pool_parks", COUNTER, NO_UNIT, "Times that a worker found nothing to do and went to sleep." },
      IN(parks) },
    { { "stint_pool_neglected_tasks", COUNTER, NO_UNIT, "Tasks that waited for 100 ms or more beside an idle worker." },
      IN(statistics.neglected) },
    { { "stint_pool_longest_neglect_seconds", GAUGE, SECONDS,
        "The longest time that a task has waited beside an idle worker." },
      IN(statistics.longest_neglect_ns) },
    { { "stint_pool_substitutes", GAUGE, NO_UNIT, "Substitute workers that have been started." },
      IN(statistics.substitutes) },
    { { "stint_pool_substituting_workers", GAUGE, NO_UNIT, "Substitutes that stand in for a task that sleeps." },
      IN(statistics.substituting) },
    { { "stint_pool_substitutions", COUNTER, NO_UNIT, "Times that a substitute took the place of a sleeping task." },
      IN(statistics.replaced) },
    { { "stint_pool_missed_substitutions", COUNTER, NO_UNIT, "Times that no substitute could be had for one." },
      IN(statistics.unreplaced) },
};

static const struct pool_metric histograms_of_pools[] = {
    { { "stint_pool_task_wait_seconds", HISTOGRAM, SECONDS, "From the submission of a task to its start." },
      IN(sum.waited) },
    { { "stint_pool_task_run_seconds", HISTOGRAM, SECONDS, "From the start of a task to its end." }, IN(sum.ran) },
    { { "stint_pool_task_charged_bytes", HISTOGRAM, BYTES, "What a task was charged for allocations in all." },
      IN(sum.charged) },
};

static const struct metric outcomes_of_pools = { "stint_pool_tasks", COUNTER, NO_UNIT,
                                                 "Tasks that have ended, by their reason; none: ok." };

static struct labels pool_label(const struct sti_pool_numbers *pool)
{
    return labels_with(none, "pool", pool->label);
}

/* One for each reason that has a name, also if nothing has ended for it; or only for those that have been there, and
 * for success. */
static void put_reasons(FILE *stream, const struct metric *metric, struct labels of, const sti_counter *outcomes,
                        bool all)
{
    const char *no_name = stint_reason_name((stint_reason)STI_REASONS);
    for (size_t reason = 0; reason < STI_REASONS; reason++) {
        const char *name = stint_reason_name((stint_reason)reason);
        uint64_t outcome = sti_counter_read(&outcomes[reason]);
        if ((all || reason == STINT_REASON_NONE || outcome != 0) && strcmp(name, no_name) != 0)
            put_sample(stream, metric, labels_with(of, "reason", name), outcome);
    }
}

static void put_pools(FILE *stream, const struct sti_pool_numbers *pools, size_t count)
{
    put_head(stream, &outcomes_of_pools);
    for (size_t i = 0; i < count; i++)
        put_reasons(stream, &outcomes_of_pools, pool_label(&pools[i]), pools[i].sum.outcomes, true);
    for (size_t m = 0; m < sizeof numbers_of_pools / sizeof *numbers_of_pools; m++) {
        const struct pool_metric *metric = &numbers_of_pools[m];
        put_head(stream, &metric->metric);
        for (size_t i = 0; i < count; i++)
            put_sample(stream, &metric->metric, pool_label(&pools[i]), metric_number(&pools[i], metric));
    }
    for (size_t m = 0; m < sizeof histograms_of_pools / sizeof *histograms_of_pools; m++) {
        const struct pool_metric *metric = &histograms_of_pools[m];
        put_head(stream, &metric->metric);
        for (size_t i = 0; i < count; i++)
            put_histogram(stream, &metric->metric, pool_label(&pools[i]),
                          (const struct sti_histogram *)((const char *)&pools[i] + metric->offset));
    }
}

/* --- Accounts. ---------------------------------------------------------------------------------------------------- */

static const struct metric outcomes_of_accounts = { "stint_account_tasks", COUNTER, NO_UNIT,
                                                    "Tasks of the account that have ended, by their reason." };
static const struct metric charges_of_accounts = { "stint_account_charged_bytes", COUNTER, BYTES,
                                                   "What ended tasks of the account were charged for allocations." };

static void put_accounts(FILE *stream)
{
    const struct sti_label *label;
    put_head(stream, &outcomes_of_accounts);
    for (unsigned i = 0; (label = sti_label_at(i)) != NULL; i++)
        put_reasons(stream, &outcomes_of_accounts, labels_with(none, "account", label->name), label->outcomes, false);
    put_head(stream, &charges_of_accounts);
    for (unsigned i = 0; (label = sti_label_at(i)) != NULL; i++)
        put_sample(stream, &charges_of_accounts, labels_with(none, "account", label->name),
                   sti_counter_read(&label->charged));
}

/* --- The process. ------------------------------------------------------------------------------------------------- */

struct process_numbers {
    struct sti_tally sum; /* of stint_run */
    uint64_t deliveries[STI_WAYS];
    uint64_t deferrals[STI_DEFERRALS];
};

static void add_up_threads(struct process_numbers *numbers)
{
    memset(numbers, 0, sizeof *numbers);
    for (const struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        sti_tally_add_to(&numbers->sum, &thread->tally);
        for (size_t i = 0; i < STI_WAYS; i++)
            numbers->deliveries[i] += sti_counter_read(&thread->deliveries[i]);
        for (size_t i = 0; i < STI_DEFERRALS; i++)
            numbers->deferrals[i] += sti_counter_read(&thread->deferrals[i]);
    }
}

static void put_runs(FILE *stream, const struct sti_tally *sum)
{
    static const struct metric outcomes = { "stint_runs", COUNTER, NO_UNIT,
                                            "Calls of stint_run that have ended, by their reason; none: ok." };
    static const struct metric ran = { "stint_run_seconds", HISTOGRAM, SECONDS,
                                       "From the start of a stint_run to its end." };
    static const struct metric charged = { "stint_run_charged_bytes", HISTOGRAM, BYTES,
                                           "What a stint_run was charged for allocations in all." };
    put_head(stream, &outcomes);
    put_reasons(stream, &outcomes, none, sum->outcomes, true);
    put_head(stream, &ran);
    put_histogram(stream, &ran, none, &sum->ran);
    put_head(stream, &charged);
    put_histogram(stream, &charged, none, &sum->charged);
}

static void put_interrupts(FILE *stream, const struct process_numbers *numbers)
{
    static const struct metric delivered = {
        "stint_interrupts_delivered", COUNTER, NO_UNIT,
        "Interrupts that a task was left by, or told of by a refused allocation."
    };
    static const struct metric warned = { "stint_warnings", COUNTER, NO_UNIT,
                                          "Warnings before a limit, by the reason that passing it would have." };
    static const struct metric deferred = {
        "stint_interrupts_deferred", COUNTER, NO_UNIT,
        "Sample points at which a due interrupt had to wait, by what it waited for."
    };
    static const char *const ways[STI_WAYS] = {
        [STINT_JUMP] = "jump",
        [STINT_FAIL] = "fail",
        [STINT_UNWIND] = "unwind",
    };
    put_head(stream, &delivered);
    for (size_t i = 0; i < STI_WAYS; i++)
        put_sample(stream, &delivered, labels_with(none, "way", ways[i]), numbers->deliveries[i]);
    put_head(stream, &warned);
    put_reasons(stream, &warned, none, sti_warnings, false);
    put_head(stream, &deferred);
    for (size_t i = STINT_DEFERRAL_NONE + 1; i < STI_DEFERRALS; i++)
        put_sample(stream, &deferred, labels_with(none, "rule", stint_deferral_name((stint_deferral)i)),
                   numbers->deferrals[i]);
}

static void put_retained(FILE *stream)
{
    static const struct metric heaps = { "stint_kept_heaps", COUNTER, NO_UNIT,
                                         "Heaps of stopped tasks of which blocks were kept, as a root led to them." };
    static const struct metric bytes = { "stint_kept_bytes", GAUGE, BYTES,
                                         "In blocks of stopped tasks that were kept and have not been freed." };
    static const struct metric faults = { "stint_heap_faults", COUNTER, NO_UNIT,
                                          "Lists of free blocks found broken, as by a block freed twice." };
    put_head(stream, &heaps);
    put_sample(stream, &heaps, none, sti_retained_heaps());
    put_head(stream, &bytes);
    put_sample(stream, &bytes, none, sti_retained_bytes());
    put_head(stream, &faults);
    put_sample(stream, &faults, none, sti_allocate_faults());
}

/* --- All of it. --------------------------------------------------------------------------------------------------- */

static void metrics_put_all(FILE *stream, const struct sti_pool_numbers *pools, size_t count)
{
    struct process_numbers numbers;
    add_up_threads(&numbers);
    put_pools(stream, pools, count);
    put_accounts(stream);
    put_runs(stream, &numbers.sum);
    put_interrupts(stream, &numbers);
    put_retained(stream);
    fprintf(stream, "# EOF\n");
}

static int make_quietly(struct sti_output *output)
{
    struct sti_pool_numbers *pools;
    size_t count;
    if (!sti_pools_take_numbers(&pools, &count))
        return ENOMEM;
    bool is_open = sti_output_open(output);
    if (is_open)
        metrics_put_all(output->stream, pools, count);
    sti_process_free(pools);
    return is_open ? sti_output_close(output, 0) : ENOMEM;
}

int stint_metrics_write(int fd)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    struct sti_output output;
    int saved_errno = errno;
    stint_mask();
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    int error = make_quietly(&output);
    sti_thread_counted = counted;
    errno = saved_errno;
    if (error == 0)
        return sti_output_write_and_unmask(&output, fd);
    stint_unmask();
    return error;
}
