/* SPDX-License-Identifier: MIT
 *
 * A request for a query; see request.h. */
#include "request.h"
#include "answer.h"
#include "clock.h"
#include "stopped.h"
#include "threads.h"
#include "walled.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTENSION_NS UINT64_C(10000000000)

struct request *request_create(struct server *server, struct MHD_Connection *connection, struct client *client,
                               stint_account *account)
{
    struct request *request = calloc(1, sizeof *request);
    if (!request || stint_token_create(NULL, &request->token) != 0) {
        free(request);
        return NULL;
    }
    request->server = server;
    request->connection = connection;
    request->client = client;
    request->account = stint_account_retain(account);
    request->record.account = account;
    request->budget = server->options->budget;
    request->resolved = true; /* until it is submitted */
    channel_open(&request->channel, &server->mailbox, &request->mail);
    return request;
}

bool request_append(struct request *request, const char *bytes, size_t length)
{
    size_t needed = request->length + length + 1;
    if (needed - 1 > request->server->options->statement) {
        request->too_long = true;
        return true;
    }
    if (needed > request->room) {
        size_t room = needed < 2 * request->room ? 2 * request->room : needed;
        char *body = realloc(request->body, room);
        if (!body)
            return false;
        request->body = body;
        request->room = room;
    }
    memcpy(request->body + request->length, bytes, length);
    request->length += length;
    request->body[request->length] = 0;
    return true;
}

/* The unresolved */

static void link_request(struct request *request)
{
    struct server *server = request->server;
    request->next = server->unresolved;
    request->link = &server->unresolved;
    if (request->next)
        request->next->link = &request->next;
    server->unresolved = request;
    server->unresolved_count++;
    request->resolved = false;
}

static void unlink_request(struct request *request)
{
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    request->server->unresolved_count--;
    request->resolved = true;
}

struct request *request_find(struct server *server, uint64_t id)
{
    struct request *request = server->unresolved;
    while (request && request->id != id)
        request = request->next;
    return request;
}

/* Its end. Mail of it may still lie in the box: then it goes when that has been taken. */

static void free_request(struct request *request)
{
    channel_close(&request->channel);
    free(request->sending);
    stint_token_release(request->token);
    stint_account_release(request->account);
    free(request->reply);
    free(request->body);
    free(request);
}

static void bury_if_done(struct request *request)
{
    bool mail = atomic_load_explicit(&request->mail.posted, memory_order_acquire);
    if (request->resolved && !request->connection && !mail) {
        request->next = request->server->dead;
        request->server->dead = request;
    }
}

void requests_bury(struct server *server)
{
    while (server->dead) {
        struct request *request = server->dead;
        server->dead = request->next;
        free_request(request);
    }
}

void request_leave(struct request *request)
{
    request->server->answering -= request->submitted_ns != 0;
    request->connection = NULL;
    request->client = NULL;
    request->response = NULL;
    request->suspended = false;
    request_cancel(request);
    bury_if_done(request);
}

void request_cancel(struct request *request)
{
    if (request->resolved)
        return;
    stint_token_set(request->token);
    channel_stop(&request->channel);
}

int request_extend(struct request *request)
{
    stint_budget budget = request->budget;
    if (request->resolved)
        return EALREADY;
    if (!request->future || budget.wall_ns == 0)
        return ENOTSUP;
    budget.wall_ns += EXTENSION_NS;
    int error = stint_future_set_budget(request->future, &budget);
    if (error == 0)
        request->budget = budget;
    return error;
}

/* Its outcome */

static void judge(struct request *request)
{
    request->verdict = verdict_of(&request->outcome, &request->budget, request->record.message,
                                  tenants_limits(request->server->tenants, request->account));
    request->server->tally[request->verdict.kind]++;
}

static void remember_if_stopped(struct request *request)
{
    stint_report *report = NULL;
    stint_future_report(request->future, &report);
    stopped_add(request->server->stopped, request, report);
    stint_report_release(report);
    stint_future_release(request->future);
}

/* Of a walled one all that it has said comes with the outcome, and may be anything. */
static void take_walled(struct request *request)
{
    const stint_outcome *outcome = &request->outcome;
    if (outcome->status == STINT_OK) {
        request->reply = outcome->value;
        request->reply_length = outcome->payload_size;
    } else if (outcome->reason == STINT_REASON_FAILED && outcome->payload) {
        snprintf(request->record.message, sizeof request->record.message, "%.*s", (int)outcome->payload_size,
                 (const char *)outcome->payload);
    }
}

static void resolve(struct request *request, const stint_outcome *outcome)
{
    unlink_request(request);
    request->outcome = *outcome;
    if (request->server->wall)
        take_walled(request);
    judge(request);
    remember_if_stopped(request);
    if (request->connection)
        answer_resolved(request);
    bury_if_done(request);
}

static void completed(struct arrival *arrival, const stint_outcome *outcome)
{
    resolve((struct request *)(void *)arrival, outcome);
}

/* A query that has no scope has what was counted outside of it: the time. */
static void resolve_unbounded(struct request *request)
{
    bool failed = request->error != 0;
    stint_outcome outcome = {
        .status = failed ? STINT_ERROR : STINT_OK,
        .reason = failed ? STINT_REASON_FAILED : STINT_REASON_NONE,
        .error = request->error,
        .usage = { .wall_ns = clock_now() - request->submitted_ns },
    };
    resolve(request, &outcome);
}

void request_mail(struct mail *mail)
{
    struct request *request = (struct request *)(void *)((char *)mail - offsetof(struct request, mail));
    if (!request->resolved && atomic_load_explicit(&request->finished, memory_order_acquire))
        resolve_unbounded(request);
    else if (request->connection && !request->resolved)
        answer_has_more(request);
    else
        bury_if_done(request);
}

/* Its beginning */

static void name(struct request *request)
{
    int written =
        snprintf(request->name, sizeof request->name, "%llu %s", (unsigned long long)request->id, request->body);
    if (written >= (int)sizeof request->name)
        strcpy(request->name + sizeof request->name - 4, "...");
}

static int submit_task(struct request *request)
{
    stint_options options = query_options();
    options.budget = request->budget;
    options.token = request->token;
    options.account = request->account;
    options.name = request->name;
    options.report = STINT_REPORT_HEAP;
    options.completions = request->server->completions;
    options.data = &request->arrival;
    return request->server->wall
               ? walled_submit(request->server, &request->record, request->length, &options, &request->future)
               : stint_submit(request->server->pool, query_run, &request->record, &options, &request->future);
}

static void refuse(struct request *request, int error)
{
    request->verdict = verdict_of_refusal(error, request->server->options->queue,
                                          tenants_limits(request->server->tenants, request->account));
    request->server->tally[request->verdict.kind]++;
    answer_resolved(request);
}

void request_submit(struct request *request)
{
    struct server *server = request->server;
    request->id = ++server->last_id;
    name(request);
    request->arrival.done = completed;
    request->record.path = server->database;
    request->record.statement = request->body;
    request->record.channel = &request->channel;
    request->submitted_ns = clock_now();
    server->answering++;
    int error = server->draining ? ESHUTDOWN
                : server->pool   ? submit_task(request)
                                 : threads_submit(server->threads, request);
    if (error) {
        refuse(request, error);
        return;
    }
    link_request(request);
    answer_wait(request);
}
