/* SPDX-License-Identifier: MIT
 *
 * stint_metrics_write: what is counted everywhere else, added up and written as OpenMetrics text. Any thread.
 *
 * The samples of a metric have to lie together, those of all pools. So the numbers are copied first, while the list of
 * pools is held, and written when nothing is. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <stint/metrics.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/charge/label.h"
#include "alloc/rollback/kept.h"
#include "pools.h"

/* --- Writing: a buffer, and the first error. ---------------------------------------------------------------------- */

struct writer {
    int fd;
    int error;
    size_t length;
    char buffer[4096];
};

static void flush(struct writer *writer)
{
    size_t written = 0;
    while (writer->error == 0 && written < writer->length) {
        ssize_t count = write(writer->fd, writer->buffer + written, writer->length - written);
        if (count > 0)
            written += (size_t)count;
        else if (count == 0 || errno != EINTR)
            writer->error = count == 0 ? EIO : errno;
    }
    writer->length = 0;
}

static void put_bytes(struct writer *writer, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t room = sizeof writer->buffer - writer->length;
        size_t part = size < room ? size : room;
        memcpy(writer->buffer + writer->length, bytes, part);
        writer->length += part;
        bytes += part;
        size -= part;
        if (writer->length == sizeof writer->buffer)
            flush(writer);
    }
}

/* At most 255 bytes. */
static __attribute__((format(printf, 2, 3))) void put(struct writer *writer, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put_bytes(writer, text, (size_t)length);
}

static void put_escaped(struct writer *writer, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"' || *text == '\n')
            put_bytes(writer, "\\", 1);
        put_bytes(writer, *text == '\n' ? "n" : text, 1);
    }
}

enum type { COUNTER, GAUGE, HISTOGRAM };
enum unit { NO_UNIT, SECONDS, BYTES };

struct metric {
    const char *name;
    enum type type;
    enum unit unit;
    const char *help;
};

static void put_head(struct writer *writer, const struct metric *metric)
{
    static const char *const types[] = { "counter", "gauge", "histogram" };
    static const char *const units[] = { NULL, "seconds", "bytes" };
    put(writer, "# TYPE %s %s\n", metric->name, types[metric->type]);
    if (metric->unit != NO_UNIT)
        put(writer, "# UNIT %s %s\n", metric->name, units[metric->unit]);
    put(writer, "# HELP %s %s\n", metric->name, metric->help);
}

struct label {
    const char *name; /* NULL: none */
    const char *value;
};

static void put_labels(struct writer *writer, struct label first, struct label second)
{
    const struct label labels[] = { first, second };
    const char *before = "{";
    for (size_t i = 0; i < 2; i++) {
        if (labels[i].name == NULL)
            continue;
        put(writer, "%s%s=\"", before, labels[i].name);
        put_escaped(writer, labels[i].value);
        put_bytes(writer, "\"", 1);
        before = ",";
    }
    if (before[0] == ',')
        put_bytes(writer, "}", 1);
}

/* Of metrics in seconds it is nanoseconds. */
static void put_value(struct writer *writer, const struct metric *metric, uint64_t value)
{
    if (metric->unit == SECONDS)
        put(writer, " %llu.%09llu\n", (unsigned long long)(value / 1000000000),
            (unsigned long long)(value % 1000000000));
    else
        put(writer, " %llu\n", (unsigned long long)value);
}

static void put_sample(struct writer *writer, const struct metric *metric, struct label first, struct label second,
                       uint64_t value)
{
    put(writer, "%s%s", metric->name, metric->type == COUNTER ? "_total" : "");
    put_labels(writer, first, second);
    put_value(writer, metric, value);
}

static const struct label none = { .name = NULL };

/* --- Histograms: powers of four, each two buckets of the counters (tally.h). -------------------------------------- */

#define FIRST_TIME 10  /* 1.024 microseconds, */
#define LAST_TIME 38   /* to 275 seconds */
#define FIRST_NUMBER 8 /* 256 bytes, */
#define LAST_NUMBER 34 /* to 16 GiB */

static void put_bucket(struct writer *writer, const struct metric *metric, struct label label, const char *bound,
                       uint64_t count)
{
    put(writer, "%s_bucket", metric->name);
    put_labels(writer, label, (struct label){ "le", bound });
    put(writer, " %llu\n", (unsigned long long)count);
}

static void put_bucket_up_to(struct writer *writer, const struct metric *metric, struct label label, unsigned power,
                             uint64_t count)
{
    unsigned long long bound = 1ULL << power;
    char text[32];
    if (metric->unit == SECONDS)
        snprintf(text, sizeof text, "%llu.%09llu", bound / 1000000000, bound % 1000000000);
    else
        snprintf(text, sizeof text, "%llu.0", bound);
    put_bucket(writer, metric, label, text, count);
}

static void put_histogram(struct writer *writer, const struct metric *metric, struct label label,
                          const struct sti_histogram_sum *histogram)
{
    bool is_time = metric->unit == SECONDS;
    uint64_t count = is_time ? 0 : histogram->buckets[STI_BUCKET_OF_NONE];
    unsigned last = is_time ? LAST_TIME : LAST_NUMBER;
    unsigned bucket = 0;
    for (unsigned power = is_time ? FIRST_TIME : FIRST_NUMBER; power <= last; power += 2) {
        while (bucket < power)
            count += histogram->buckets[bucket++];
        put_bucket_up_to(writer, metric, label, power, count);
    }
    while (bucket < (is_time ? STI_BUCKETS : STI_BUCKET_OF_NONE))
        count += histogram->buckets[bucket++];
    put_bucket(writer, metric, label, "+Inf", count);
    put(writer, "%s_count", metric->name);
    put_labels(writer, label, none);
    put(writer, " %llu\n%s_sum", (unsigned long long)count, metric->name);
    put_labels(writer, label, none);
    put_value(writer, metric, histogram->sum);
}

/* --- Pools. ------------------------------------------------------------------------------------------------------- */

/* A metric with one number for each pool, and where that is. */
struct pool_metric {
    struct metric metric;
    size_t offset;
};

#define IN(field) offsetof(struct sti_pool_numbers, field)

static const struct pool_metric numbers_of_pools[] = {
    { { "stint_pool_workers", GAUGE, NO_UNIT, "Workers of the pool, without substitutes." }, IN(workers) },
    { { "stint_pool_started_tasks", COUNTER, NO_UNIT, "Tasks that workers have begun." }, IN(started) },
    { { "stint_pool_waiting_tasks", GAUGE, NO_UNIT,
        "Tasks that wait to begin, with cancelled ones not yet taken out." },
      IN(waiting) },
    { { "stint_pool_held_back_tasks", GAUGE, NO_UNIT,
        "Of the waiting tasks, those whose account had its maximum of running ones." },
      IN(held_back) },
    { { "stint_pool_running_workers", GAUGE, NO_UNIT, "Workers that are in the midst of a task or a part of one." },
      IN(running) },
    { { "stint_pool_asleep_workers", GAUGE, NO_UNIT,
        "Of the running workers, those that sleep in a blocking region, a wait or a join." },
      IN(asleep) },
    { { "stint_pool_stolen_tasks", COUNTER, NO_UNIT, "Tasks that a worker took from another worker's deque." },
      IN(steals) },
    { { "stint_pool_stolen_subtasks", COUNTER, NO_UNIT, "Forked subtasks that another worker than their task's ran." },
      IN(forks) },
    { { "stint_pool_parks", COUNTER, NO_UNIT, "Times that a worker found nothing to do and went to sleep." },
      IN(parks) },
    { { "stint_pool_neglected_tasks", COUNTER, NO_UNIT, "Tasks that waited for 100 ms or more beside an idle worker." },
      IN(neglected) },
    { { "stint_pool_longest_neglect_seconds", GAUGE, SECONDS,
        "The longest time that a task has waited beside an idle worker." },
      IN(longest_neglect_ns) },
    { { "stint_pool_substitutes", GAUGE, NO_UNIT, "Substitute workers that have been started." }, IN(substitutes) },
    { { "stint_pool_substituting_workers", GAUGE, NO_UNIT, "Substitutes that stand in for a task that sleeps." },
      IN(substituting) },
    { { "stint_pool_substitutions", COUNTER, NO_UNIT, "Times that a substitute took the place of a sleeping task." },
      IN(replaced) },
    { { "stint_pool_missed_substitutions", COUNTER, NO_UNIT, "Times that no substitute could be had for one." },
      IN(unreplaced) },
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

static struct label pool_label(const struct sti_pool_numbers *pool)
{
    return (struct label){ "pool", pool->label };
}

/* One for each reason that has a name, also if nothing has ended for it; or only for those that have been there, and
 * for success. */
static void put_reasons(struct writer *writer, const struct metric *metric, struct label of, const uint64_t *outcomes,
                        bool all)
{
    const char *no_name = stint_reason_name((stint_reason)STI_REASONS);
    for (size_t reason = 0; reason < STI_REASONS; reason++) {
        const char *name = stint_reason_name((stint_reason)reason);
        bool is_shown = all || reason == STINT_REASON_NONE || outcomes[reason] != 0;
        if (is_shown && strcmp(name, no_name) != 0)
            put_sample(writer, metric, of, (struct label){ "reason", name }, outcomes[reason]);
    }
}

static void put_pools(struct writer *writer, const struct sti_pool_numbers *pools, size_t count)
{
    put_head(writer, &outcomes_of_pools);
    for (size_t i = 0; i < count; i++)
        put_reasons(writer, &outcomes_of_pools, pool_label(&pools[i]), pools[i].sum.outcomes, true);
    for (size_t m = 0; m < sizeof numbers_of_pools / sizeof *numbers_of_pools; m++) {
        const struct pool_metric *metric = &numbers_of_pools[m];
        put_head(writer, &metric->metric);
        for (size_t i = 0; i < count; i++)
            put_sample(writer, &metric->metric, pool_label(&pools[i]), none,
                       *(const uint64_t *)((const char *)&pools[i] + metric->offset));
    }
    for (size_t m = 0; m < sizeof histograms_of_pools / sizeof *histograms_of_pools; m++) {
        const struct pool_metric *metric = &histograms_of_pools[m];
        put_head(writer, &metric->metric);
        for (size_t i = 0; i < count; i++)
            put_histogram(writer, &metric->metric, pool_label(&pools[i]),
                          (const struct sti_histogram_sum *)((const char *)&pools[i] + metric->offset));
    }
}

/* --- Accounts. ---------------------------------------------------------------------------------------------------- */

static const struct metric outcomes_of_accounts = { "stint_account_tasks", COUNTER, NO_UNIT,
                                                    "Tasks of the account that have ended, by their reason." };
static const struct metric charges_of_accounts = { "stint_account_charged_bytes", COUNTER, BYTES,
                                                   "What ended tasks of the account were charged for allocations." };

static void put_accounts(struct writer *writer)
{
    const struct sti_label *label;
    put_head(writer, &outcomes_of_accounts);
    for (unsigned i = 0; (label = sti_label_at(i)) != NULL; i++) {
        const struct sti_label_sum sum = sti_label_read(label);
        put_reasons(writer, &outcomes_of_accounts, (struct label){ "account", label->name }, sum.outcomes, false);
    }
    put_head(writer, &charges_of_accounts);
    for (unsigned i = 0; (label = sti_label_at(i)) != NULL; i++)
        put_sample(writer, &charges_of_accounts, (struct label){ "account", label->name }, none,
                   sti_label_read(label).charged);
}

/* --- The process. ------------------------------------------------------------------------------------------------- */

struct process_numbers {
    struct sti_tally_sum sum; /* of stint_run */
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

static void put_runs(struct writer *writer, const struct sti_tally_sum *sum)
{
    static const struct metric outcomes = { "stint_runs", COUNTER, NO_UNIT,
                                            "Calls of stint_run that have ended, by their reason; none: ok." };
    static const struct metric ran = { "stint_run_seconds", HISTOGRAM, SECONDS,
                                       "From the start of a stint_run to its end." };
    static const struct metric charged = { "stint_run_charged_bytes", HISTOGRAM, BYTES,
                                           "What a stint_run was charged for allocations in all." };
    put_head(writer, &outcomes);
    put_reasons(writer, &outcomes, none, sum->outcomes, true);
    put_head(writer, &ran);
    put_histogram(writer, &ran, none, &sum->ran);
    put_head(writer, &charged);
    put_histogram(writer, &charged, none, &sum->charged);
}

static void put_interrupts(struct writer *writer, const struct process_numbers *numbers)
{
    static const struct metric delivered = {
        "stint_interrupts_delivered", COUNTER, NO_UNIT,
        "Interrupts that a task was left by, or told of by a refused allocation."
    };
    static const struct metric deferred = {
        "stint_interrupts_deferred", COUNTER, NO_UNIT,
        "Sample points at which a due interrupt had to wait, by what it waited for."
    };
    static const char *const ways[STI_WAYS] = {
        [STINT_JUMP] = "jump",
        [STINT_FAIL] = "fail",
        [STINT_UNWIND] = "unwind",
    };
    put_head(writer, &delivered);
    for (size_t i = 0; i < STI_WAYS; i++)
        put_sample(writer, &delivered, (struct label){ "way", ways[i] }, none, numbers->deliveries[i]);
    put_head(writer, &deferred);
    for (size_t i = STINT_DEFERRAL_NONE + 1; i < STI_DEFERRALS; i++)
        put_sample(writer, &deferred, (struct label){ "rule", stint_deferral_name((stint_deferral)i) }, none,
                   numbers->deferrals[i]);
}

static void put_kept(struct writer *writer)
{
    static const struct metric heaps = { "stint_kept_heaps", COUNTER, NO_UNIT,
                                         "Heaps of stopped tasks of which blocks were kept, as a root led to them." };
    static const struct metric bytes = { "stint_kept_bytes", GAUGE, BYTES,
                                         "In blocks of stopped tasks that were kept and have not been freed." };
    put_head(writer, &heaps);
    put_sample(writer, &heaps, none, none, sti_kept_heaps());
    put_head(writer, &bytes);
    put_sample(writer, &bytes, none, none, sti_kept_bytes());
}

/* --- All of it. --------------------------------------------------------------------------------------------------- */

static void put_all(struct writer *writer, const struct sti_pool_numbers *pools, size_t count)
{
    struct process_numbers numbers;
    add_up_threads(&numbers);
    put_pools(writer, pools, count);
    put_accounts(writer);
    put_runs(writer, &numbers.sum);
    put_interrupts(writer, &numbers);
    put_kept(writer);
    put(writer, "# EOF\n");
    flush(writer);
}

int stint_metrics_write(int fd)
{
    struct sti_pool_numbers *pools;
    size_t count;
    struct writer writer = { .fd = fd };
    int saved_errno = errno;
    stint_mask();
    if (sti_pools_take_numbers(&pools, &count)) {
        put_all(&writer, pools, count);
        sti_process_free(pools);
    } else {
        writer.error = ENOMEM;
    }
    errno = saved_errno;
    stint_unmask();
    return writer.error;
}
