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
#include <stdlib.h>

struct job {
    parse_document document;
    int unread; /* 0; an errno value: it cannot be looked at */
    stint_outcome outcome;
    bool done;
};

struct window {
    struct run *run;
    pthread_mutex_t lock; /* over all below, and over done in every record */
    pthread_cond_t stuck; /* a thread has nothing to take */
    pthread_cond_t freed; /* records were collected */
    size_t oldest, next;
    struct job jobs[RUN_WINDOW];
};

static struct job *job_at(struct window *window, size_t index)
{
    return &window->jobs[index % RUN_WINDOW];
}

static void run_job(struct job *job)
{
    uint64_t start = clock_now();
    void *value = NULL;
    int error = job->unread ? parse_unread(&job->document, job->unread) : parse_document_run(&job->document, &value);
    if (error)
        job->outcome = (stint_outcome){ .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = error };
    job->outcome.usage.wall_ns = clock_now() - start;
}

/* Take the next file; NULL when there is none, or when no further one shall be begun. Called with the lock held. */
static struct job *take(struct window *window)
{
    const struct paths *paths = window->run->paths;
    while (window->next < paths->count && window->next - window->oldest == RUN_WINDOW) {
        pthread_cond_signal(&window->stuck);
        pthread_cond_wait(&window->freed, &window->lock);
    }
    if (window->next == paths->count || interrupt_came()) {
        pthread_cond_signal(&window->stuck);
        return NULL;
    }
    const paths_file *file = &paths->files[window->next];
    struct job *job = job_at(window, window->next++);
    *job = (struct job){ .document = { .path = file->path, .kind = file->kind }, .unread = file->error };
    return job;
}

static void *work(void *argument)
{
    struct window *window = argument;
    pthread_mutex_lock(&window->lock);
    struct job *job;
    while ((job = take(window))) {
        pthread_mutex_unlock(&window->lock);
        run_job(job);
        pthread_mutex_lock(&window->lock);
        job->done = true;
    }
    pthread_mutex_unlock(&window->lock);
    return NULL;
}

static void show_progress(struct window *window)
{
    if (!report_progress_due(window->run->report))
        return;
    report_tally ahead = { 0, 0, 0 };
    for (size_t i = window->oldest; i < window->next; i++) {
        if (job_at(window, i)->done)
            report_count(&ahead, job_at(window, i)->outcome.status);
    }
    report_progress(window->run->report, &ahead);
}

static void report_oldest(struct window *window)
{
    struct job job = *job_at(window, window->oldest++);
    pthread_mutex_unlock(&window->lock);
    report_document(window->run->report, &job.document, &job.outcome, NULL);
    pthread_mutex_lock(&window->lock);
}

/* Give the threads some time, and report what has ended, from the oldest on. Called with the lock held. */
static void collect(struct window *window)
{
    struct timespec until = clock_after_ms(RUN_TICK_NS / 1000000);
    pthread_cond_clockwait(&window->stuck, &window->lock, CLOCK_MONOTONIC, &until);
    while (window->oldest < window->next && job_at(window, window->oldest)->done)
        report_oldest(window);
    pthread_cond_broadcast(&window->freed);
    show_progress(window);
}

static void collect_all(struct window *window)
{
    const struct run *run = window->run;
    while (!interrupt_is_over() &&
           (window->oldest < window->next || (window->next < run->paths->count && !interrupt_came())))
        collect(window);
}

/* What has not ended by now does not stop. */
static void leave(struct window *window)
{
    while (window->oldest < window->next) {
        if (job_at(window, window->oldest)->done)
            report_oldest(window);
        else
            run_report_left(window->run, window->oldest++, true);
    }
    run_report_unbegun(window->run, window->next);
}

static int start_threads(struct window *window, pthread_t *threads, unsigned *started)
{
    int error = 0;
    *started = 0;
    while (*started < window->run->workers && !error) {
        error = pthread_create(&threads[*started], NULL, work, window);
        if (!error)
            ++*started;
    }
    return *started ? 0 : error; /* fewer threads are enough */
}

static int run_threads(struct window *window, pthread_t *threads)
{
    unsigned started;
    pthread_mutex_init(&window->lock, NULL);
    pthread_cond_init(&window->stuck, NULL);
    pthread_cond_init(&window->freed, NULL);
    int error = start_threads(window, threads, &started);
    if (error)
        return error;
    pthread_mutex_lock(&window->lock);
    collect_all(window);
    leave(window);
    pthread_mutex_unlock(&window->lock);
    while (started && !window->run->left)
        pthread_join(threads[--started], NULL);
    return 0;
}

int run_unbounded(struct run *run)
{
    struct window *window = calloc(1, sizeof *window);
    pthread_t *threads = calloc(run->workers, sizeof *threads);
    int error = window && threads ? 0 : ENOMEM;
    if (!error) {
        window->run = run;
        error = run_threads(window, threads);
    }
    free(threads);
    if (!run->left)
        free(window);
    return error;
}
