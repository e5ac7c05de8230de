/* SPDX-License-Identifier: MIT
 *
 * The page and its events; see page.h. */
#include "page.h"
#include "client.h"
#include "page_html.h"
#include "reply.h"
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVERY_NS 500000000
#define BLOCK 4096

/* One open page. It is freed by MHD with its response. */
struct listener {
    struct page *page;
    struct listener *next, **link;
    struct MHD_Connection *connection;
    char *text; /* what is being sent; NULL: nothing is */
    size_t length, sent;
    bool suspended;
    bool ended;
};

struct page {
    struct watch watch; /* first: of the timer */
    struct server *server;
    struct listener *listeners;
    int timer;
    bool asking; /* a chore is under way */
};

static void set_timer(struct page *page, long every_ns)
{
    struct itimerspec time = { .it_interval.tv_nsec = every_ns, .it_value.tv_nsec = every_ns };
    timerfd_settime(page->timer, 0, &time, NULL);
}

static void resume(struct listener *listener)
{
    if (listener->suspended)
        MHD_resume_connection(listener->connection);
    listener->suspended = false;
}

/* A page that has not taken the last event yet is left out of this one. */
static void tell(struct listener *listener, const char *text, size_t length)
{
    if (listener->text || listener->ended)
        return;
    listener->text = malloc(length);
    if (!listener->text)
        return;
    memcpy(listener->text, text, length);
    listener->length = length;
    listener->sent = 0;
    resume(listener);
}

static void tell_all(struct server *server, const char *text, size_t length)
{
    struct page *page = server->page;
    page->asking = false;
    for (struct listener *listener = page->listeners; listener && text; listener = listener->next)
        tell(listener, text, length);
}

static void tick(struct watch *watch)
{
    struct page *page = (struct page *)(void *)watch;
    uint64_t count;
    ssize_t got = read(page->timer, &count, sizeof count);
    (void)got;
    if (page->asking || !page->listeners)
        return;
    page->asking = state_ask(page->server, tell_all) == 0;
}

int page_create(struct server *server)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page)
        return ENOMEM;
    page->server = server;
    page->watch.ready = tick;
    page->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &page->watch };
    if (page->timer < 0 || epoll_ctl(server->poll, EPOLL_CTL_ADD, page->timer, &event) != 0) {
        int error = errno;
        free(page);
        return error;
    }
    server->page = page;
    return 0;
}

void page_free(struct page *page)
{
    if (page)
        close(page->timer);
    free(page);
}

/* Events */

static ssize_t read_events(void *argument, uint64_t position, char *to, size_t room)
{
    (void)position;
    struct listener *listener = argument;
    if (listener->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!listener->text) {
        listener->suspended = true;
        MHD_suspend_connection(listener->connection);
        return 0;
    }
    size_t left = listener->length - listener->sent;
    size_t length = left < room ? left : room;
    memcpy(to, listener->text + listener->sent, length);
    listener->sent += length;
    if (listener->sent == listener->length) {
        free(listener->text);
        listener->text = NULL;
    }
    return (ssize_t)length;
}

static void free_listener(void *argument)
{
    struct listener *listener = argument;
    struct client *client = client_of(listener->connection);
    *listener->link = listener->next;
    if (listener->next)
        listener->next->link = listener->link;
    if (client)
        client->listener = NULL;
    if (!listener->page->listeners)
        set_timer(listener->page, 0);
    free(listener->text);
    free(listener);
}

void page_drop(struct listener *listener)
{
    listener->ended = true;
    resume(listener);
}

void page_end(struct page *page)
{
    for (struct listener *listener = page->listeners; listener; listener = listener->next)
        page_drop(listener);
}

static void link_listener(struct page *page, struct listener *listener)
{
    if (!page->listeners)
        set_timer(page, EVERY_NS);
    listener->page = page;
    listener->next = page->listeners;
    listener->link = &page->listeners;
    if (listener->next)
        listener->next->link = &listener->next;
    page->listeners = listener;
}

enum MHD_Result page_handle_events(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)rest;
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, listener, free_listener);
    if (!response) {
        free(listener);
        return MHD_NO;
    }
    listener->connection = connection;
    listener->ended = server->draining;
    link_listener(server->page, listener);
    struct client *client = client_of(connection);
    client->listener = listener;
    client_leave_time(client);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    return reply_send(connection, MHD_HTTP_OK, response);
}

/* The page itself brings all that it needs, and nothing else may be loaded by it. */
enum MHD_Result page_handle(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)server;
    (void)rest;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(page_html_length, (void *)(uintptr_t)page_html, MHD_RESPMEM_PERSISTENT);
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/html; charset=utf-8");
        MHD_add_response_header(response, "Content-Security-Policy", page_policy);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
    return reply_send(connection, MHD_HTTP_OK, response);
}
