/* SPDX-License-Identifier: MIT
 *
 * stint-dispatch: sends files as jobs to a JetStream work queue, and reports what came of them as stint-batch does.
 * This file puts the parts together. */
#include "arguments.h"
#include "clock.h"
#include "dispatch_options.h"
#include "job.h"
#include "lines.h"
#include "report.h"
#include "results.h"
#include "send.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { EXIT_ALL_OK = 0, EXIT_NOT_ALL_OK = 1, EXIT_UNUSABLE = 2, EXIT_INTERRUPTED = 130 };

#define TICK_MS 100
#define EARLIER_MS 500                    /* in which a first result of an earlier part of the run comes */
#define WORDLESS_NS UINT64_C(10000000000) /* without a result, somebody may want to know why */
#define CANCEL_TICKS 30                   /* how often running jobs are told to stop: until they have said so */
#define CANCEL_QUIET_TICKS 10             /* after so many without a result nobody will say anything */

static volatile sig_atomic_t interrupted;

/* Who presses twice does not want to wait. */
static void interrupt(int signal)
{
    (void)signal;
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
    interrupted = 1;
}

struct dispatch {
    struct bus *bus;
    const struct dispatch_options *options;
    const char *run;
    struct parcels parcels;
    struct sender sender;
    struct results results;
    struct report *report;
    size_t oldest; /* of the list; all before it are reported */
    char **workers;
    size_t worker_count;
    uint64_t result_ns; /* when the last one came */
    bool wondered;      /* since then, why there is none */
};

static void note_worker(struct dispatch *dispatch, const char *name)
{
    for (size_t i = 0; i < dispatch->worker_count; i++) {
        if (strcmp(dispatch->workers[i], name) == 0)
            return;
    }
    char *copy = strdup(name);
    char **workers = copy ? reallocarray(dispatch->workers, dispatch->worker_count + 1, sizeof *workers) : NULL;
    if (!workers) {
        free(copy);
        return;
    }
    dispatch->workers = workers;
    workers[dispatch->worker_count++] = copy;
}

static void on_result(void *argument, const char *hash, struct record *record)
{
    struct dispatch *dispatch = argument;
    struct parcel *parcel = parcels_find(&dispatch->parcels, hash);
    pthread_mutex_lock(&dispatch->sender.lock);
    bool first = parcel && parcel->state != PARCEL_DONE;
    if (first) {
        parcel->state = PARCEL_DONE;
        parcel->record = *record;
        dispatch->result_ns = clock_now();
        dispatch->wondered = false;
    }
    pthread_mutex_unlock(&dispatch->sender.lock);
    if (first)
        note_worker(dispatch, record->worker);
    else
        record_free(record);
}

/* The parcel with the record of this one; NULL: it is not done. Its state is changed by others, but never from done. */
static const struct parcel *done_of(struct dispatch *dispatch, const struct parcel *parcel)
{
    const struct parcel *sent = parcel->same ? parcel->same : parcel;
    pthread_mutex_lock(&dispatch->sender.lock);
    bool done = sent->state == PARCEL_DONE;
    pthread_mutex_unlock(&dispatch->sender.lock);
    return done ? sent : NULL;
}

static void report_one(struct dispatch *dispatch, const struct parcel *parcel, const struct record *record)
{
    parse_document document = { .path = parcel->file->path, .kind = parcel->file->kind, .items = record->items };
    snprintf(document.detail, sizeof document.detail, "%s", record->detail ? record->detail : "");
    report_line(dispatch->report, &document, &record->outcome, record->why ? strdup(record->why) : NULL);
}

/* What has ended, from the oldest on. */
static void report_finished(struct dispatch *dispatch)
{
    const struct parcel *sent;
    while (dispatch->oldest < dispatch->parcels.count &&
           (sent = done_of(dispatch, &dispatch->parcels.list[dispatch->oldest]))) {
        report_one(dispatch, &dispatch->parcels.list[dispatch->oldest], &sent->record);
        dispatch->oldest++;
    }
}

static void show_progress(struct dispatch *dispatch)
{
    if (!report_progress_due(dispatch->report))
        return;
    report_tally ahead = { 0, 0, 0 };
    for (size_t i = dispatch->oldest; i < dispatch->parcels.count; i++) {
        const struct parcel *sent = done_of(dispatch, &dispatch->parcels.list[i]);
        if (sent)
            report_count(&ahead, sent->record.outcome.status);
    }
    report_progress(dispatch->report, &ahead);
}

static void collect(struct dispatch *dispatch)
{
    results_take(&dispatch->results, TICK_MS, on_result, dispatch);
    report_finished(dispatch);
    show_progress(dispatch);
}

static void wonder(struct dispatch *dispatch)
{
    if (dispatch->wondered || clock_now() - dispatch->result_ns < WORDLESS_NS)
        return;
    bus_say(dispatch->bus, "no result for 10 s; is a worker running?");
    dispatch->wondered = true;
}

static bool all_reported(const struct dispatch *dispatch)
{
    return dispatch->oldest == dispatch->parcels.count;
}

/* A run that is gone on with: what has a record is not sent again. */
static void read_earlier(struct dispatch *dispatch)
{
    while (results_take(&dispatch->results, EARLIER_MS, on_result, dispatch) && !interrupted)
        ;
}

/* 0, or the status to exit with: nothing was sent. */
static int send_and_collect(struct dispatch *dispatch)
{
    dispatch->result_ns = clock_now();
    if (dispatch->options->run)
        read_earlier(dispatch);
    report_finished(dispatch);
    while (!all_reported(dispatch) && !interrupted && !atomic_load(&dispatch->bus->closed)) {
        if (!sender_send(&dispatch->sender))
            return EXIT_UNUSABLE;
        collect(dispatch);
        wonder(dispatch);
    }
    return 0;
}

static void publish_cancels(struct dispatch *dispatch)
{
    for (size_t i = 0; i < dispatch->parcels.different; i++) {
        const struct parcel *parcel = dispatch->parcels.by_hash[i];
        char *subject;
        if (done_of(dispatch, parcel) ||
            asprintf(&subject, "%s.cancel.%s.%s", dispatch->options->streams.name, dispatch->run, parcel->hash) < 0)
            continue;
        natsConnection_Publish(dispatch->bus->connection, subject, NULL, 0);
        free(subject);
    }
}

/* What waits in the queue goes from there; what runs is told to stop, and says so. One that was on its way to a worker
 * when it was told is told again. */
static void cancel(struct dispatch *dispatch)
{
    char *subject;
    sender_settle(&dispatch->sender, 5000);
    if (asprintf(&subject, "%s.job.%s.>", dispatch->options->streams.name, dispatch->run) >= 0) {
        jsOptions options;
        jsOptions_Init(&options);
        options.Stream.Purge.Subject = subject;
        natsStatus status = js_PurgeStream(dispatch->bus->js, dispatch->options->streams.name, &options, NULL);
        if (status != NATS_OK)
            bus_say(dispatch->bus, "cannot take back what waits: %s", bus_error(status));
        free(subject);
    }
    unsigned quiet = 0;
    for (unsigned i = 0; i < CANCEL_TICKS && quiet < CANCEL_QUIET_TICKS && !all_reported(dispatch); i++) {
        publish_cancels(dispatch);
        quiet = results_take(&dispatch->results, TICK_MS, on_result, dispatch) ? 0 : quiet + 1;
        report_finished(dispatch);
    }
}

/* What has no record now will not get one that anybody waits for. */
static void give_up_rest(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->sender.lock);
    for (size_t i = 0; i < dispatch->parcels.different; i++) {
        struct parcel *parcel = dispatch->parcels.by_hash[i];
        if (parcel->state != PARCEL_DONE && interrupted)
            parcel_cancel(parcel);
        else if (parcel->state != PARCEL_DONE)
            parcel_fail(parcel, EPIPE, "the servers have closed the connection for good, or take no more jobs");
    }
    pthread_mutex_unlock(&dispatch->sender.lock);
    report_finished(dispatch);
}

static bool open_report(struct dispatch *dispatch, const struct paths *paths, FILE *json)
{
    dispatch->report = report_begin(&(report_options){
        .files = paths->count,
        .skipped = paths->skipped,
        .quiet = dispatch->options->quiet,
        .json = json,
        .text = json == stdout ? stderr : stdout,
    });
    if (!dispatch->report)
        arguments_complain("report", ENOMEM);
    return dispatch->report;
}

static int end_report(struct dispatch *dispatch, FILE *json)
{
    report_workers(dispatch->report, (unsigned)dispatch->worker_count);
    report_tally tally = report_end(dispatch->report);
    int error = lines_check(dispatch->options->json, json);
    if (interrupted)
        return EXIT_INTERRUPTED;
    return error || tally.error || tally.cancelled ? EXIT_NOT_ALL_OK : EXIT_ALL_OK;
}

/* All is open. */
static int run_opened(struct dispatch *dispatch, const struct paths *paths, FILE *json)
{
    if (!open_report(dispatch, paths, json))
        return EXIT_NOT_ALL_OK;
    int status = send_and_collect(dispatch);
    if (status && !sender_has_sent(&dispatch->sender)) {
        report_abandon(dispatch->report);
        return status;
    }
    if (status || interrupted)
        cancel(dispatch);
    give_up_rest(dispatch);
    int end = end_report(dispatch, json);
    return status ? status : end;
}

static int run(struct bus *bus, const struct dispatch_options *options, const struct paths *paths, FILE *json)
{
    char name[17];
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return arguments_complain("random", errno), EXIT_UNUSABLE;
    snprintf(name, sizeof name, "%016" PRIx64, random);
    struct dispatch *dispatch = calloc(1, sizeof *dispatch);
    if (!dispatch || !parcels_open(&dispatch->parcels, paths, bus_most_bytes(bus, JOB_HEADERS_ROOM))) {
        free(dispatch);
        return arguments_complain("files", ENOMEM), EXIT_UNUSABLE;
    }
    dispatch->bus = bus;
    dispatch->options = options;
    dispatch->run = options->run ? options->run : name;
    int status = EXIT_UNUSABLE;
    if (sender_open(&dispatch->sender, bus, options->streams.name, dispatch->run, &dispatch->parcels)) {
        if (results_open(&dispatch->results, bus, options->streams.name, dispatch->run)) {
            status = run_opened(dispatch, paths, json);
            results_close(&dispatch->results);
        }
        sender_close(&dispatch->sender);
    }
    parcels_close(&dispatch->parcels);
    for (size_t i = 0; i < dispatch->worker_count; i++)
        free(dispatch->workers[i]);
    free(dispatch->workers);
    free(dispatch);
    return status;
}

static int connect_and_run(const struct dispatch_options *options, const struct paths *paths, FILE *json)
{
    struct bus bus;
    if (!bus_open(&bus, &options->bus))
        return EXIT_UNUSABLE;
    int status = EXIT_UNUSABLE;
    if (streams_make(&bus, &options->streams))
        status = options->create ? EXIT_ALL_OK : run(&bus, options, paths, json);
    bus_close(&bus);
    return status;
}

int main(int argc, char **argv)
{
    struct dispatch_options options;
    arguments_next next = dispatch_options_read(&options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next == ARGUMENTS_DONE ? EXIT_ALL_OK : EXIT_UNUSABLE;
    struct paths paths = PATHS_INIT;
    FILE *json = NULL;
    int status = EXIT_UNUSABLE;
    if (!paths_gather(&paths, options.paths, options.path_count, options.zero_separated) &&
        !lines_open(options.json, &json)) {
        struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
        sigaction(SIGINT, &action, NULL);
        status = connect_and_run(&options, &paths, json);
    }
    lines_close(json);
    paths_free(&paths);
    return status;
}
