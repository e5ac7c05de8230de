/* SPDX-License-Identifier: MIT
 *
 * What the page shows; see state.h. */
#include "state.h"
#include "chore.h"
#include "clock.h"
#include "json.h"
#include "reply.h"
#include "request.h"
#include "stopped.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More than so many are not shown, each with so much of its statement. */
#define RUNNING_MAX 200
#define STATEMENT_MAX 300
#define NS_PER_MS 1000000

/* What a visit tells of one. */
struct seen {
    uint64_t id;
    size_t memory;
};

struct question {
    struct chore chore;
    state_told_fn *told;
    struct seen seen[RUNNING_MAX];
    size_t count;
};

/* The visit: in a chore */

static bool see(const stint_task_view *view, void *argument)
{
    struct question *question = argument;
    if (view->running && view->name)
        question->seen[question->count++] = (struct seen){ strtoull(view->name, NULL, 10), view->memory };
    return question->count < RUNNING_MAX;
}

static int visit(void *argument, void **value)
{
    (void)value;
    struct question *question = argument;
    return stint_pool_visit(question->chore.server->pool, see, question);
}

/* The text: on the loop */

static void print_running(FILE *file, const struct request *request, size_t held, uint64_t now)
{
    size_t length = strnlen(request->record.statement, STATEMENT_MAX);
    char statement[STATEMENT_MAX + 1];
    memcpy(statement, request->record.statement, length);
    statement[length] = 0;
    fprintf(file, "{\"id\":\"%" PRIu64 "\",\"tenant\":", request->id);
    json_print_string(file, stint_account_name(request->account));
    fputs(",\"statement\":", file);
    json_print_string(file, statement);
    fprintf(file, ",\"age_ms\":%" PRIu64 ",\"timeout_ms\":%" PRIu64, (now - request->submitted_ns) / NS_PER_MS,
            request->budget.wall_ns / NS_PER_MS);
    fprintf(file, ",\"held\":%zu,\"held_limit\":%zu,\"allocated\":%zu,\"allocated_limit\":%zu}", held,
            request->budget.memory, atomic_load_explicit(&request->record.allocated, memory_order_relaxed),
            request->budget.allocation);
}

/* How many. A query that has begun after the visit is shown the next time. */
static size_t print_all_running(FILE *file, struct server *server, const struct question *question)
{
    uint64_t now = clock_now();
    size_t printed = 0;
    for (size_t i = 0; i < question->count; i++) {
        struct request *request = request_find(server, question->seen[i].id);
        if (!request)
            continue;
        fputs(printed++ ? "," : "", file);
        print_running(file, request, question->seen[i].memory, now);
        atomic_store_explicit(&request->record.asked, true, memory_order_relaxed);
    }
    return printed;
}

static void print_state(FILE *file, struct server *server, const struct question *question)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    fprintf(file, "event: state\ndata: {\"time\":%lld,\"workers\":%u,\"queue\":%u,\"running\":[",
            (long long)time.tv_sec * 1000 + time.tv_nsec / NS_PER_MS, server->workers, server->options->queue);
    size_t running = print_all_running(file, server, question);
    fprintf(file, "],\"waiting\":%zu,\"outcomes\":{",
            server->unresolved_count > running ? server->unresolved_count - running : 0);
    for (int kind = 0; kind < VERDICT_KINDS; kind++)
        fprintf(file, "%s\"%s\":%" PRIu64, kind ? "," : "", verdict_kind_name((verdict_kind)kind), server->tally[kind]);
    fprintf(file, "},\"stopped\":%" PRIu64 "}\n\n", stopped_count(server->stopped));
}

static void tell(struct chore *chore, bool ok)
{
    (void)ok; /* without the visit none is seen to run */
    struct question *question = (struct question *)(void *)chore;
    struct server *server = chore->server;
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (file) {
        print_state(file, server, question);
        if (fclose(file)) {
            free(text);
            text = NULL;
        }
    }
    question->told(server, text, length);
    free(text);
    free(question);
}

/* Plain threads have nobody who knows more of them than that a query has begun. */
static void see_unbounded(const struct server *server, struct question *question)
{
    for (struct request *request = server->unresolved; request && question->count < RUNNING_MAX;
         request = request->next) {
        if (atomic_load_explicit(&request->record.begun, memory_order_relaxed))
            question->seen[question->count++].id = request->id;
    }
}

/* Nor does anybody tell which of the walled ones have a child: those that wait are taken to be the newest. */
static void see_walled(const struct server *server, struct question *question)
{
    stint_wall_statistics wall = STINT_WALL_STATISTICS_INIT;
    stint_wall_read(server->wall, &wall);
    size_t waiting = server->unresolved_count > wall.running ? server->unresolved_count - wall.running : 0;
    for (struct request *request = server->unresolved; request && question->count < RUNNING_MAX;
         request = request->next) {
        if (waiting > 0)
            waiting--;
        else
            question->seen[question->count++].id = request->id;
    }
}

int state_ask(struct server *server, state_told_fn *told)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return ENOMEM;
    question->chore = (struct chore){ .server = server, .run = visit, .done = tell };
    question->told = told;
    if (!server->pool || server->wall) {
        if (server->wall)
            see_walled(server, question);
        else
            see_unbounded(server, question);
        tell(&question->chore, true);
        return EALREADY;
    }
    int error = chore_begin(server, &question->chore);
    if (error)
        free(question);
    return error;
}
