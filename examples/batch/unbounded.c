/* SPDX-License-Identifier: MIT
 *
 * The list on plain threads that take the next file from a shared counter: the same work without tasks, scopes and
 * limits. What Ctrl-C does here is all that can be done without them: no further file is begun, and what runs is
 * left. */
#include "clock.h"
#include "interrupt.h"
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Its thread's until it is done, and then the main thread's. */
struct job {
    parse_document document;
    stint_outcome outcome;
    atomic_bool done;
};

struct unbounded {
    struct run *run;
    atomic_size_t next; /* the first that was not begun; past the end of the list when all were */
    size_t oldest;      /* the first that was not reported */
    struct job jobs[];
};

static void run_job(struct job *job, const paths_file *file)
{
    uint64_t start = clock_now();
    void *value = NULL;
    job->document = (parse_document){ .path = file->path, .kind = file->kind };
    int error = file->error ? parse_unread(&job->document, file->error) : parse_document_run(&job->document, &value);
    if (error)
        job->outcome = (stint_outcome){ .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = error };
    job->outcome.usage.wall_ns = clock_now() - start;
    atomic_store_explicit(&job->done, true, memory_order_release);
}

static void *work(void *argument)
{
    struct unbounded *all = argument;
    const struct paths *paths = all->run->paths;
    size_t index;
    while (!interrupt_came() && (index = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed)) < paths->count)
        run_job(&all->jobs[index], &paths->files[index]);
    return NULL;
}

static bool is_done(struct unbounded *all, size_t index)
{
    return atomic_load_explicit(&all->jobs[index].done, memory_order_acquire);
}

static void report_oldest(struct unbounded *all)
{
    struct job *job = &all->jobs[all->oldest++];
    report_document(all->run->report, &job->document, &job->outcome, NULL);
}

static void report_finished(struct unbounded *all)
{
    const report_tally none = { 0, 0, 0 };
    while (all->oldest < all->run->paths->count && is_done(all, all->oldest))
        report_oldest(all);
    if (report_progress_due(all->run->report))
        report_progress(all->run->report, &none);
}

/* Until they have ended, or do not stop. */
static void wait_for_threads(struct unbounded *all, const pthread_t *threads, unsigned count)
{
    for (unsigned i = 0; i < count && !interrupt_is_over();) {
        struct timespec until = clock_after_ms(RUN_TICK_NS / 1000000);
        i += pthread_clockjoin_np(threads[i], NULL, CLOCK_MONOTONIC, &until) == 0;
        report_finished(all);
    }
}

/* What has not ended by now does not stop. */
static void leave(struct unbounded *all)
{
    size_t count = all->run->paths->count, begun = atomic_load_explicit(&all->next, memory_order_relaxed);
    while (all->oldest < count && all->oldest < begun) {
        if (is_done(all, all->oldest))
            report_oldest(all);
        else
            run_report_left(all->run, all->oldest++, true);
    }
    run_report_unbegun(all->run, all->oldest);
}

static int start_threads(struct unbounded *all, pthread_t *threads, unsigned *started)
{
    int error = 0;
    *started = 0;
    while (*started < all->run->workers && !error) {
        error = pthread_create(&threads[*started], NULL, work, all);
        *started += !error;
    }
    return *started ? 0 : error; /* fewer threads are enough */
}

int run_unbounded(struct run *run)
{
    struct unbounded *all = calloc(1, sizeof *all + run->paths->count * sizeof all->jobs[0]);
    pthread_t *threads = calloc(run->workers, sizeof *threads);
    unsigned started;
    int error = all && threads ? 0 : ENOMEM;
    if (!error) {
        all->run = run;
        error = start_threads(all, threads, &started);
    }
    if (!error) {
        wait_for_threads(all, threads, started);
        leave(all);
    }
    free(threads);
    if (!run->left)
        free(all);
    return error;
}
