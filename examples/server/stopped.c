/* SPDX-License-Identifier: MIT
 *
 * The last queries that were stopped; see stopped.h. */
#include "stopped.h"
#include "contents.h"
#include "json.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STATEMENT_MAX 4096

/* As it was; only the text comes later. */
struct stop {
    atomic_uint references;
    uint64_t id;
    struct timespec time;
    stint_account *account;
    char *statement;
    struct verdict verdict;
    stint_report *report;
    pthread_mutex_t lock; /* over the text */
    char *text;           /* NULL: it has not been asked for, or could not be made */
};

struct stopped {
    struct stop *ring[STOPPED_MAX];
    uint64_t count;
};

struct stopped *stopped_create(void)
{
    return calloc(1, sizeof(struct stopped));
}

static void release(struct stop *stop)
{
    if (!stop || atomic_fetch_sub_explicit(&stop->references, 1, memory_order_acq_rel) != 1)
        return;
    stint_account_release(stop->account);
    stint_report_release(stop->report);
    pthread_mutex_destroy(&stop->lock);
    free(stop->statement);
    free(stop->text);
    free(stop);
}

void stopped_free(struct stopped *stopped)
{
    for (size_t i = 0; stopped && i < STOPPED_MAX; i++)
        release(stopped->ring[i]);
    free(stopped);
}

static struct stop *create(const struct request *request, stint_report *report)
{
    struct stop *stop = calloc(1, sizeof *stop);
    char *statement = strndup(request->record.statement, STATEMENT_MAX);
    if (!stop || !statement) {
        free(stop);
        free(statement);
        return NULL;
    }
    atomic_init(&stop->references, 1);
    pthread_mutex_init(&stop->lock, NULL);
    clock_gettime(CLOCK_REALTIME, &stop->time);
    stop->id = request->id;
    stop->account = stint_account_retain(request->account);
    stop->statement = statement;
    stop->verdict = request->verdict;
    stop->report = stint_report_retain(report);
    return stop;
}

void stopped_add(struct stopped *stopped, const struct request *request, stint_report *report)
{
    if (request->outcome.reason == STINT_REASON_NONE || request->outcome.reason == STINT_REASON_FAILED)
        return;
    struct stop *stop = create(request, report);
    if (!stop)
        return;
    struct stop **place = &stopped->ring[stopped->count++ % STOPPED_MAX];
    release(*place);
    *place = stop;
}

uint64_t stopped_count(const struct stopped *stopped)
{
    return stopped->count;
}

void stopped_take_snapshot(const struct stopped *stopped, struct stopped_snapshot *snapshot)
{
    uint64_t count = stopped->count < STOPPED_MAX ? stopped->count : STOPPED_MAX;
    for (uint64_t i = 0; i < count; i++) {
        struct stop *stop = stopped->ring[(stopped->count - 1 - i) % STOPPED_MAX];
        atomic_fetch_add_explicit(&stop->references, 1, memory_order_relaxed);
        snapshot->stops[i] = stop;
    }
    snapshot->count = (size_t)count;
}

void stopped_drop_snapshot(struct stopped_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++)
        release(snapshot->stops[i]);
    snapshot->count = 0;
}

/* Writing */

/* It stays with the stop, and so must not be the chore's. */
static char *make_text(const stint_report *report)
{
    stint_keep_begin();
    char *text = NULL;
    size_t size;
    int fd = memfd_create("report", MFD_CLOEXEC);
    if (fd >= 0 && stint_report_write(report, fd, STINT_REPORT_TEXT) == 0)
        contents_read(fd, SIZE_MAX, &text, &size);
    if (fd >= 0)
        close(fd);
    stint_keep_end();
    return text;
}

static void print_text(struct stop *stop, FILE *file)
{
    pthread_mutex_lock(&stop->lock);
    if (!stop->text && stop->report)
        stop->text = make_text(stop->report);
    json_print_string(file, stop->text ? stop->text : "");
    pthread_mutex_unlock(&stop->lock);
}

static void print_time(const struct stop *stop, FILE *file)
{
    struct tm parts;
    char text[32];
    gmtime_r(&stop->time.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(file, "\"%s.%03ldZ\"", text, stop->time.tv_nsec / 1000000);
}

static void print(struct stop *stop, FILE *file)
{
    const struct verdict *verdict = &stop->verdict;
    fprintf(file, "{\"id\":\"%" PRIu64 "\",\"time\":", stop->id);
    print_time(stop, file);
    fputs(",\"tenant\":", file);
    json_print_string(file, stint_account_name(stop->account));
    fputs(",\"statement\":", file);
    json_print_string(file, stop->statement);
    fprintf(file, ",\"status\":%u,\"outcome\":\"%s\",\"reason\":\"%s\",\"unit\":\"%s\"", verdict->status,
            verdict->outcome, verdict->reason, verdict->unit ? verdict->unit : "");
    fprintf(file, ",\"limit\":%" PRIu64 ",\"used\":%" PRIu64 ",\"report\":", verdict->limit, verdict->used);
    print_text(stop, file);
    fputc('}', file);
}

void stopped_print(const struct stopped_snapshot *snapshot, FILE *file)
{
    fputc('[', file);
    for (size_t i = 0; i < snapshot->count; i++) {
        fputs(i ? ",\n" : "\n", file);
        print(snapshot->stops[i], file);
    }
    fputs("\n]\n", file);
}
