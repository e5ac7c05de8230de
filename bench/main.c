/* SPDX-License-Identifier: MIT
 *
 * stint-bench: measures each bench as a bounded job of a pool of one worker, and prints what came of it. The main
 * thread waits, and shows how far it is. With --serve, in place of all that, one subject's process. */
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "figure.h"
#include "harness.h"
#include "markdown.h"
#include "options.h"
#include "table.h"

#define STARTS 11
#define QUICK_STARTS 5
#define QUICK_SHARE 3 /* of the rounds */
#define PROGRESS_NS 200000000

static const struct bench *const bench_groups[] = {
    bench_machine,    bench_alloc,    bench_map,  bench_mutex,   bench_run,        bench_account,
    bench_overshoot,  bench_roots,    bench_wipe, bench_cancel,  bench_submitting, bench_forking,
    bench_fork_typed, bench_overload, bench_fair, bench_contain, bench_metrics,    bench_profile,
    bench_report,     bench_start,    bench_wall, NULL,
};

struct session {
    struct bench_options options;
    FILE *out;
    stint_pool *pool;
    struct job *jobs; /* one for each bench that was chosen */
    size_t chosen;
    size_t starts;
    size_t failed; /* benches */
    struct figure_list figures;
};

static bool is_chosen(const struct bench *bench, const char *glob)
{
    return glob == NULL || fnmatch(glob, bench->name, 0) == 0;
}

static void list_bench(const struct bench *bench)
{
    printf("%-18s %-8s %s\n%27s", bench->name, bench->unit, bench->what, "");
    for (const struct bench_subject *subject = bench->subjects; subject->name != NULL; subject++)
        printf(" %s", subject->name);
    printf("\n");
}

/* This very process is a subject's: its arguments are --serve BENCH SUBJECT WORKERS. */
static int serve(int argc, char **argv)
{
    for (const struct bench *const *group = bench_groups; argc == 5 && *group != NULL; group++) {
        for (const struct bench *bench = *group; bench->name != NULL; bench++) {
            for (const struct bench_subject *subject = bench->subjects; subject->name != NULL; subject++) {
                struct bench_work works[] = { { bench->name, subject->name, subject->prepare, subject->measure },
                                              { NULL, NULL, NULL, NULL } };
                if (subject->measure != NULL && strcmp(bench->name, argv[2]) == 0 &&
                    strcmp(subject->name, argv[3]) == 0)
                    return bench_serve_main(works, argc, argv);
            }
        }
    }
    fprintf(stderr, "stint-bench: --serve is for stint-bench itself only\n");
    return 2;
}

static void wait_for(const struct session *session, const struct job *job, stint_future *future, stint_outcome *outcome)
{
    if (!isatty(STDERR_FILENO)) {
        stint_future_wait(future, outcome);
        return;
    }
    while (stint_future_wait_for(future, PROGRESS_NS, outcome) == ETIMEDOUT) {
        size_t done = atomic_load_explicit(&job->done, memory_order_relaxed);
        size_t before = job->starts * session->chosen + (size_t)(job - session->jobs);
        fprintf(stderr, "\r\033[K%3zu %%  start %zu of %zu: %s %zu/%zu",
                before * 100 / (session->chosen * session->starts), job->starts + 1, session->starts, job->bench->name,
                done, harness_measurements(job));
    }
    fprintf(stderr, "\r\033[K");
}

/* Start the job's subjects once more. A bench that fails is left out from then on. */
static void measure(struct session *session, struct job *job)
{
    stint_future *future;
    stint_outcome outcome;
    int error = harness_submit(session->pool, job, &future);
    if (error == 0) {
        wait_for(session, job, future, &outcome);
        stint_future_release(future);
        if (outcome.status == STINT_OK) {
            job->starts++;
            return;
        }
        error = outcome.error;
    }
    fprintf(session->out, "%s   FAILED at the subject %s: %s\n", job->bench->name, job->subject, strerror(error));
    harness_forget(job);
    job->starts = 0;
    job->broken = true;
    session->failed++;
}

static void measure_all(struct session *session)
{
    for (size_t start = 0; start < session->starts; start++) {
        for (size_t i = 0; i < session->chosen; i++) {
            if (!session->jobs[i].broken)
                measure(session, &session->jobs[i]);
        }
    }
}

static void report(struct session *session)
{
    size_t missed = 0;
    for (size_t i = 0; i < session->chosen; i++) {
        struct job *job = &session->jobs[i];
        if (job->broken)
            continue;
        for (size_t subject = 0; subject < BENCH_SUBJECTS_MAX; subject++)
            figures_sort(&job->series[subject].figures);
        missed += table_print(job, session->out);
        figure_collect(&session->figures, job);
    }
    fprintf(session->out, "\n%zu benches; %zu targets missed; %zu benches failed.\n", session->chosen, missed,
            session->failed);
}

static void write_figures(struct session *session, FILE *out)
{
    figure_write(&session->figures, out);
}

static void write_table(struct session *session, FILE *out)
{
    markdown_begin(out);
    for (size_t i = 0; i < session->chosen; i++)
        markdown_print(&session->jobs[i], out);
}

/* False, and a message on standard error: not all of it is there. */
static bool write_file(struct session *session, const char *path, void (*write)(struct session *, FILE *))
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (out != NULL)
        write(session, out);
    bool good = out != NULL && fflush(out) == 0 && !ferror(out);
    if (!good)
        fprintf(stderr, "stint-bench: %s: %s\n", path, strerror(errno));
    if (out != NULL && out != stdout)
        fclose(out);
    return good;
}

/* 0 or 1, the exit status. */
static int finish(struct session *session, const struct figure_list *old)
{
    const struct bench_options *options = &session->options;
    bool good = session->failed == 0;
    if (options->compare != NULL && figure_compare(old, &session->figures, options->compare, session->out) > 0)
        good = false;
    if (options->json != NULL && !write_file(session, options->json, write_figures))
        good = false;
    if (options->markdown != NULL && !write_file(session, options->markdown, write_table))
        good = false;
    return good ? 0 : 1;
}

static void each_chosen(struct session *session, void (*visit)(struct session *, const struct bench *))
{
    for (const struct bench *const *group = bench_groups; *group != NULL; group++) {
        for (const struct bench *bench = *group; bench->name != NULL; bench++) {
            if (is_chosen(bench, session->options.only))
                visit(session, bench);
        }
    }
}

static void count_bench(struct session *session, const struct bench *bench)
{
    session->chosen++;
    if (session->options.list)
        list_bench(bench);
}

static void add_job(struct session *session, const struct bench *bench)
{
    size_t rounds = session->options.quick ? bench->rounds / QUICK_SHARE : bench->rounds;
    session->jobs[session->chosen++] = (struct job){
        .bench = bench,
        .subject = bench->subjects[0].name,
        .workers = bench->workers == BENCH_ALL ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN)
                   : bench->workers == 0       ? 1
                                               : bench->workers,
        .rounds = rounds > 0 ? rounds : 1,
    };
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--serve") == 0)
        return serve(argc, argv);
    struct session session = { .options = bench_options_read(argc, argv), .out = stdout };
    struct figure_list old = { .list = NULL };
    each_chosen(&session, count_bench);
    if (session.chosen == 0) {
        fprintf(stderr, "stint-bench: no bench is called %s (see --list)\n", session.options.only);
        return 2;
    }
    if (session.options.list)
        return 0;
    if (session.options.compare != NULL && !figure_read(&old, session.options.compare))
        return 2;
    if (session.options.json != NULL && strcmp(session.options.json, "-") == 0)
        session.out = stderr;

    session.starts = session.options.runs != 0 ? session.options.runs : session.options.quick ? QUICK_STARTS : STARTS;
    session.jobs = calloc(session.chosen, sizeof *session.jobs);
    if (session.jobs == NULL)
        return 1;
    session.chosen = 0;
    each_chosen(&session, add_job);

    stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1, .name = "bench" };
    int error = stint_pool_create(&pool_options, &session.pool);
    if (error != 0) {
        fprintf(stderr, "stint-bench: no pool: %s\n", strerror(error));
        return 1;
    }
    signal(SIGPIPE, SIG_IGN); /* a subject that ends early is a failed measurement */
    fprintf(session.out, "stint %s, mimalloc %d, %ld processors\n", stint_version(), stint_backend_version(),
            sysconf(_SC_NPROCESSORS_ONLN));
    measure_all(&session);
    report(&session);
    int status = finish(&session, &old);
    for (size_t i = 0; i < session.chosen; i++)
        harness_free(&session.jobs[i]);
    free(session.jobs);
    figure_free(&old);
    figure_free(&session.figures);
    stint_pool_destroy(session.pool);
    return status;
}
