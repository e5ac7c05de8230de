/* SPDX-License-Identifier: MIT
 *
 * The list as tasks of a pool, in place or behind a wall. The main thread submits and collects; records live in an
 * array of its own, each touched by its task until the task's future has resolved, and by the main thread from then
 * on. */
#include "interrupt.h"
#include "run.h"
#include "task.h"

#include <errno.h>
#include <stdlib.h>

/* Between two attempts to submit to a full queue: time for workers to take some of it, not to empty it. */
#define RETRY_NS UINT64_C(5000000)

struct job {
    parse_task task;
    int error; /* 0; an errno value: it could not be submitted, and has no future */
};

struct window {
    struct run *run;
    stint_pool *pool;
    struct job jobs[RUN_WINDOW];
    size_t oldest, next; /* indices into the list; a record is at its index modulo RUN_WINDOW */
};

static struct job *job_at(struct window *window, size_t index)
{
    return &window->jobs[index % RUN_WINDOW];
}

static bool has_ended(const struct job *job)
{
    return job->error || stint_future_is_ready(job->task.future);
}

/* Behind a wall nobody here knows. */
static bool is_begun(const struct job *job)
{
    return job->task.wall || atomic_load_explicit(&job->task.begun, memory_order_relaxed);
}

static stint_outcome outcome_of_unsubmitted(const struct job *job)
{
    return (stint_outcome){ .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = job->error };
}

static int submit(struct window *window, size_t index)
{
    const struct run *run = window->run;
    const paths_file *file = &run->paths->files[index];
    struct job *job = job_at(window, index);
    *job = (struct job){
        .task = { .document = { .path = file->path, .kind = file->kind }, .budget = &run->budget, .wall = run->wall }
    };
    job->error = file->error ? parse_unread(&job->task.document, file->error)
                             : parse_task_submit(&job->task, window->pool, run->root);
    return job->error;
}

/* Also count what has ended behind the oldest, else one slow file would make the bar stand still. */
static void show_progress(struct window *window)
{
    if (!report_progress_due(window->run->report))
        return;
    report_tally ahead = { 0, 0, 0 };
    for (size_t i = window->oldest; i < window->next; i++) {
        const struct job *job = job_at(window, i);
        stint_outcome task;
        if (job->error)
            report_count(&ahead, STINT_ERROR);
        else if (stint_future_wait_for(job->task.future, 0, &task) == 0)
            report_count(&ahead, task.status);
    }
    report_progress(window->run->report, &ahead);
}

static void report_oldest(struct window *window)
{
    struct job *job = job_at(window, window->oldest++);
    stint_outcome outcome = job->error ? outcome_of_unsubmitted(job) : parse_task_take(&job->task);
    report_document(window->run->report, &job->task.document, &outcome, job->task.why);
    stint_report_release(job->task.why);
}

/* Give the tasks some time, until the newest has ended at most, and report what has ended, from the oldest on. To wait
 * for one after the other would wake this thread as often as there are files, at the cost of the workers. */
static void collect(struct window *window, uint64_t time_ns)
{
    const struct job *newest = job_at(window, window->next - 1);
    const struct job *awaited = has_ended(newest) ? job_at(window, window->oldest) : newest;
    if (!has_ended(awaited))
        stint_future_wait_for(awaited->task.future, time_ns, NULL);
    while (window->oldest < window->next && has_ended(job_at(window, window->oldest)))
        report_oldest(window);
    show_progress(window);
}

/* A full queue is no error: after a little time there is room. Should there be no memory for a task, its file fails.
 * False: there was no room yet. */
static bool submit_next(struct window *window)
{
    if (window->next - window->oldest == RUN_WINDOW)
        return false;
    if (submit(window, window->next) == EAGAIN && window->oldest < window->next)
        return false;
    window->next++;
    return true;
}

static void submit_all(struct window *window)
{
    while (window->next < window->run->paths->count && !interrupt_came()) {
        if (!submit_next(window))
            collect(window, RETRY_NS);
    }
}

static void collect_all(struct window *window)
{
    while (window->oldest < window->next && !interrupt_is_over())
        collect(window, RUN_TICK_NS);
}

/* What has not stopped in its time runs, or waits behind what does. */
static void leave(struct window *window)
{
    while (window->oldest < window->next) {
        const struct job *job = job_at(window, window->oldest);
        if (has_ended(job))
            report_oldest(window);
        else
            run_report_left(window->run, window->oldest++, is_begun(job));
    }
    run_report_unbegun(window->run, window->next);
}

int run_bounded(struct run *run)
{
    struct window *window = calloc(1, sizeof *window);
    if (!window)
        return ENOMEM;
    window->run = run;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = run->workers;
    options.name = "batch";
    int error = stint_pool_create(&options, &window->pool);
    if (!error) {
        submit_all(window);
        collect_all(window);
        leave(window);
        if (run->left)
            return 0; /* with all of it: it is in use */
        stint_pool_destroy(window->pool);
    }
    free(window);
    return error;
}
