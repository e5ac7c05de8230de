/* SPDX-License-Identifier: MIT
 *
 * The list as tasks of a pool, in place or behind a wall. The main thread submits and collects; records live in an
 * array of its own, each touched by its task until the task's future has resolved, and by the main thread from then
 * on. */
#include "run.h"
#include "task.h"

#include <errno.h>
#include <stdlib.h>

/* Between two attempts to submit to a full queue: time for workers to take some of it, not to empty it. */
#define RETRY_NS UINT64_C(5000000)

struct window {
    const struct run *run;
    stint_pool *pool;
    parse_task jobs[RUN_WINDOW];
    size_t oldest, next; /* indices into the list; a record is at its index modulo RUN_WINDOW */
};

static parse_task *job_at(struct window *window, size_t index)
{
    return &window->jobs[index % RUN_WINDOW];
}

static int submit(struct window *window, size_t index)
{
    const struct run *run = window->run;
    const paths_file *file = &run->paths->files[index];
    parse_task *job = job_at(window, index);
    *job = (parse_task){ .document = { .path = file->path, .kind = file->kind },
                         .budget = &run->budget,
                         .wall = run->wall };
    return parse_task_submit(job, window->pool, run->root);
}

/* Also count what has ended behind the oldest, else one slow file would make the bar stand still. */
static void show_progress(struct window *window)
{
    if (!report_progress_due(window->run->report))
        return;
    report_tally ahead = { 0, 0, 0 };
    for (size_t i = window->oldest; i < window->next; i++) {
        const parse_task *job = job_at(window, i);
        stint_outcome task;
        if (stint_future_wait_for(job->future, 0, &task) == 0)
            report_count(&ahead, parse_task_outcome(job, &task).status);
    }
    report_progress(window->run->report, &ahead);
}

static void report_oldest(struct window *window)
{
    parse_task *job = job_at(window, window->oldest++);
    stint_outcome outcome = parse_task_take(job);
    report_document(window->run->report, &job->document, &outcome, job->why);
    stint_report_release(job->why);
}

/* Give the tasks some time, until the newest has ended at most, and report what has ended, from the oldest on. To wait
 * for one after the other would wake this thread as often as there are files, at the cost of the workers. */
static void collect(struct window *window, uint64_t time_ns)
{
    const parse_task *newest = job_at(window, window->next - 1);
    const parse_task *oldest = job_at(window, window->oldest);
    stint_future_wait_for(stint_future_is_ready(newest->future) ? oldest->future : newest->future, time_ns, NULL);
    while (window->oldest < window->next && stint_future_is_ready(job_at(window, window->oldest)->future))
        report_oldest(window);
    show_progress(window);
}

static void collect_all(struct window *window)
{
    while (window->oldest < window->next)
        collect(window, RUN_TICK_NS);
}

/* A full queue is no error: after a little time there is room. Should there be no memory for a task, its file fails, in
 * its turn. */
static void submit_next(struct window *window)
{
    while (window->next - window->oldest == RUN_WINDOW)
        collect(window, RETRY_NS);
    int error;
    while ((error = submit(window, window->next)) == EAGAIN && window->oldest < window->next)
        collect(window, RETRY_NS);
    if (error) {
        collect_all(window);
        stint_outcome outcome = { .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = error };
        report_document(window->run->report, &job_at(window, window->next)->document, &outcome, NULL);
        window->oldest++;
    }
    window->next++;
}

int run_bounded(const struct run *run)
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
        while (window->next < run->paths->count)
            submit_next(window);
        collect_all(window);
        stint_pool_destroy(window->pool);
    }
    free(window);
    return error;
}
