/* SPDX-License-Identifier: MIT
 *
 * The places of a worker; see places.h. Under the lock is what others than a place's own thread look at: which message
 * it holds, whether that is still to be said to be in progress, and by which token its task is cancelled. */
#include "places.h"
#include "clock.h"
#include "settle.h"
#include "task.h"
#include "why.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OVERDUE_NS UINT64_C(1000000000) /* past its deadline: others shall have its processor, and health tells */
#define SETTLE_GRACE_MS 5000            /* after a cancelled drain: for tasks to end, and for words to the servers */

struct place {
    struct places *all;
    pthread_t thread;
    /* Under the lock. */
    natsMsg *message;   /* NULL: the place is free */
    const char *id;     /* of its job; NULL: not known yet, or no more */
    stint_token *token; /* of its job, as long as it has an id */
    bool in_progress;   /* the servers are to be told so */
    bool cancelled;     /* by its sender */
};

struct places {
    places_options options;
    struct settler settler;
    stint_pool *pool;
    stint_token *root; /* above every job's token; set at the end of a drain */
    char worker[128];
    pthread_mutex_t lock;
    pthread_cond_t filled; /* a place got a message, or all are to end */
    pthread_cond_t freed;
    pthread_cond_t ending; /* wakes the thread that tells of progress */
    bool end;
    atomic_bool hurry;
    unsigned started;
    pthread_t progress;
    places_counts counts;
    struct place places[];
};

static void stop_progress(void *argument)
{
    struct place *place = argument;
    pthread_mutex_lock(&place->all->lock);
    place->in_progress = false;
    pthread_mutex_unlock(&place->all->lock);
}

/* From here on the job can be cancelled. */
static int name_job(struct place *place, const struct job *job, stint_token **token)
{
    int error = stint_token_create(place->all->root, token);
    if (!error) {
        pthread_mutex_lock(&place->all->lock);
        place->id = job->id;
        place->token = *token;
        pthread_mutex_unlock(&place->all->lock);
    }
    return error;
}

/* Whether it was cancelled by its sender. */
static bool unname_job(struct place *place)
{
    pthread_mutex_lock(&place->all->lock);
    bool cancelled = place->cancelled;
    place->id = NULL;
    place->token = NULL;
    place->cancelled = false;
    pthread_mutex_unlock(&place->all->lock);
    return cancelled;
}

/* Run it in the pool. 0, or an errno value: it could not be begun. */
static int run(parse_task *task, stint_pool *pool, stint_token *token, stint_outcome *outcome)
{
    int error = parse_task_submit(task, pool, token);
    if (!error)
        *outcome = parse_task_take(task);
    return error;
}

/* What is no fault of the job's: this worker ends, or was in need itself. */
static bool is_ours(const stint_outcome *outcome, bool cancelled)
{
    return (outcome->status == STINT_CANCELLED && !cancelled) || outcome->reason == STINT_REASON_GLOBAL_MEMORY_LIMIT;
}

/* Run the job, and fill the record. False: another worker shall do it. */
static bool run_job(struct place *place, const struct job *job, parse_task *task, struct record *record)
{
    stint_token *token = NULL;
    bool cancelled = false;
    int error = name_job(place, job, &token);
    if (!error) {
        error = run(task, place->all->pool, token, &record->outcome);
        cancelled = unname_job(place);
        stint_token_release(token);
    }
    if (error || is_ours(&record->outcome, cancelled))
        return false;
    record->items = task->document.items;
    if (task->why && record->outcome.reason != STINT_REASON_FAILED)
        record->why = why_line(task->why);
    return true;
}

static void fail(parse_task *task, struct record *record, int error, const char *detail)
{
    record->outcome = (stint_outcome){ .status = STINT_ERROR, .reason = STINT_REASON_FAILED, .error = error };
    snprintf(task->document.detail, sizeof task->document.detail, "%s", detail);
}

static void count(struct places *places, enum settled settled)
{
    pthread_mutex_lock(&places->lock);
    places->counts.ok += settled == SETTLED_OK;
    places->counts.dead += settled == SETTLED_DEAD;
    places->counts.cancelled += settled == SETTLED_CANCELLED;
    places->counts.handed_back += settled == SETTLED_NOT;
    pthread_mutex_unlock(&places->lock);
}

/* A job that another worker has had before, and has left without a word: it may have a record. */
static bool conclude_known(struct place *place, const struct job *job)
{
    const struct settler *settler = &place->all->settler;
    struct record known;
    if (job->deliveries < 2 || !settle_find(settler, job, &known))
        return false;
    count(place->all, settle_conclude(settler, job, &known, stop_progress, place));
    record_free(&known);
    return true;
}

/* A job that was delivered more often than it may be run is not begun any more: it took its workers with it. As the
 * servers never give up, another worker will see to that should this one die here. */
static void do_job(struct place *place, const struct job *job)
{
    struct places *places = place->all;
    parse_task task = { .document = { .path = job->name,
                                      .kind = job->kind,
                                      .text = natsMsg_GetData(job->message),
                                      .size = (size_t)natsMsg_GetDataLength(job->message) },
                        .budget = places->options.budget,
                        .wall = places->options.wall };
    struct record record = { .deliveries = job->deliveries, .detail = task.document.detail, .worker = places->worker };
    if (places->options.verbose)
        bus_say(places->options.bus, "job %s, delivery %llu: %s", job->id, (unsigned long long)job->deliveries,
                job->name);
    if (job->deliveries > places->options.max_runs)
        fail(&task, &record, EOWNERDEAD, "given up: every worker that ran it died or lost it");
    else if (!job->known)
        fail(&task, &record, EINVAL, "this worker does not know its kind");
    else if (!run_job(place, job, &task, &record)) {
        stop_progress(place);
        settle_hand_back(&places->settler, job);
        count(places, SETTLED_NOT);
        stint_report_release(task.why);
        return;
    }
    count(places, settle_publish(&places->settler, job, &record, stop_progress, place));
    free(record.why);
    stint_report_release(task.why);
}

static void handle(struct place *place, natsMsg *message)
{
    struct job job;
    if (!job_read(&job, message, place->all->options.stream)) {
        bus_say(place->all->options.bus, "dropped a message of %s, which is not a job", natsMsg_GetSubject(message));
        stop_progress(place);
        natsMsg_Term(message, NULL);
    } else if (!conclude_known(place, &job)) {
        do_job(place, &job);
    }
}

/* NULL: all are to end. */
static natsMsg *wait_for_message(struct place *place)
{
    struct places *places = place->all;
    pthread_mutex_lock(&places->lock);
    while (!place->message && !places->end)
        pthread_cond_wait(&places->filled, &places->lock);
    natsMsg *message = place->message;
    pthread_mutex_unlock(&places->lock);
    return message;
}

static void become_free(struct place *place)
{
    struct places *places = place->all;
    pthread_mutex_lock(&places->lock);
    natsMsg *message = place->message;
    place->message = NULL;
    place->in_progress = false;
    places->counts.busy--;
    pthread_cond_broadcast(&places->freed);
    pthread_mutex_unlock(&places->lock);
    natsMsg_Destroy(message);
}

static void *serve(void *argument)
{
    struct place *place = argument;
    natsMsg *message;
    while ((message = wait_for_message(place))) {
        handle(place, message);
        become_free(place);
    }
    return NULL;
}

/* Three words in the time after which the servers would give a job to another worker: two may be lost. */
static void *tell_progress(void *argument)
{
    struct places *places = argument;
    uint64_t pause_ms = (uint64_t)places->options.ack_wait_ns / 3000000;
    pthread_mutex_lock(&places->lock);
    while (!places->end) {
        struct timespec until = clock_after_ms(pause_ms ? pause_ms : 1);
        if (pthread_cond_clockwait(&places->ending, &places->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
            continue;
        for (unsigned i = 0; i < places->options.count; i++) {
            if (places->places[i].in_progress)
                natsMsg_InProgress(places->places[i].message, NULL);
        }
    }
    pthread_mutex_unlock(&places->lock);
    return NULL;
}

unsigned places_wait_free(struct places *places, unsigned timeout_ms)
{
    struct timespec until = clock_after_ms(timeout_ms);
    pthread_mutex_lock(&places->lock);
    while (places->counts.busy == places->options.count &&
           pthread_cond_clockwait(&places->freed, &places->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        ;
    unsigned free = places->options.count - places->counts.busy;
    pthread_mutex_unlock(&places->lock);
    return free;
}

void places_take(struct places *places, natsMsg *message)
{
    pthread_mutex_lock(&places->lock);
    struct place *place = places->places;
    while (place->message)
        place++;
    place->message = message;
    place->in_progress = true;
    places->counts.busy++;
    pthread_cond_broadcast(&places->filled);
    pthread_mutex_unlock(&places->lock);
}

void places_cancel(struct places *places, const char *id)
{
    pthread_mutex_lock(&places->lock);
    for (unsigned i = 0; i < places->options.count; i++) {
        struct place *place = &places->places[i];
        if (place->id && strcmp(place->id, id) == 0) {
            place->cancelled = true;
            stint_token_set(place->token);
        }
    }
    pthread_mutex_unlock(&places->lock);
}

static bool count_overdue(const stint_task_view *view, void *overdue)
{
    *(unsigned *)overdue += view->overdue;
    return true;
}

void places_read(struct places *places, places_counts *counts)
{
    pthread_mutex_lock(&places->lock);
    *counts = places->counts;
    pthread_mutex_unlock(&places->lock);
    stint_pool_visit(places->pool, count_overdue, &counts->overdue);
}

bool places_are_stuck(const struct places *places, const places_counts *counts)
{
    return counts->overdue >= places->options.count;
}

/* Whether all are free. */
static bool wait_idle(struct places *places, uint64_t timeout_ms)
{
    struct timespec until = clock_after_ms(timeout_ms);
    pthread_mutex_lock(&places->lock);
    while (places->counts.busy &&
           pthread_cond_clockwait(&places->freed, &places->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        ;
    bool idle = places->counts.busy == 0;
    pthread_mutex_unlock(&places->lock);
    return idle;
}

void places_drain(struct places *places, uint64_t drain_ns)
{
    if (wait_idle(places, drain_ns / 1000000))
        return;
    stint_token_set(places->root);
    if (!wait_idle(places, SETTLE_GRACE_MS))
        atomic_store(&places->hurry, true);
    wait_idle(places, SETTLE_GRACE_MS);
}

/* Threads that were started have ended. */
static void join_all(struct places *places)
{
    pthread_mutex_lock(&places->lock);
    places->end = true;
    pthread_cond_broadcast(&places->filled);
    pthread_cond_broadcast(&places->ending);
    pthread_mutex_unlock(&places->lock);
    for (unsigned i = 0; i < places->started; i++)
        pthread_join(places->places[i].thread, NULL);
    if (places->progress)
        pthread_join(places->progress, NULL);
}

static void free_all(struct places *places)
{
    stint_pool_destroy(places->pool);
    stint_token_release(places->root);
    free(places);
}

bool places_close(struct places *places)
{
    if (!wait_idle(places, 0))
        return false;
    join_all(places);
    free_all(places);
    return true;
}

static void name_worker(struct places *places)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    snprintf(places->worker, sizeof places->worker, "%s-%d", host, (int)getpid());
}

static int start_threads(struct places *places)
{
    int error = 0;
    while (!error && places->started < places->options.count) {
        struct place *place = &places->places[places->started];
        place->all = places;
        error = pthread_create(&place->thread, NULL, serve, place);
        places->started += !error;
    }
    if (!error)
        error = pthread_create(&places->progress, NULL, tell_progress, places);
    return error;
}

struct places *places_open(const places_options *options)
{
    struct places *places = calloc(1, sizeof *places + options->count * sizeof places->places[0]);
    if (!places)
        return bus_say(options->bus, "out of memory"), NULL;
    places->options = *options;
    places->settler = (struct settler){ options->bus, options->stream, &places->hurry };
    name_worker(places);
    pthread_mutex_init(&places->lock, NULL);
    pthread_cond_init(&places->filled, NULL);
    pthread_cond_init(&places->freed, NULL);
    pthread_cond_init(&places->ending, NULL);
    stint_pool_options pool = STINT_POOL_OPTIONS_INIT;
    pool.workers = options->processors;
    pool.name = "jobs";
    pool.overdue_ns = OVERDUE_NS;
    int error = stint_token_create(NULL, &places->root);
    if (!error)
        error = stint_pool_create(&pool, &places->pool);
    if (!error)
        error = start_threads(places);
    if (error) {
        bus_say(options->bus, "cannot start: %s", strerror(error));
        join_all(places);
        free_all(places);
        return NULL;
    }
    return places;
}
