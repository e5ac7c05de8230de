/* SPDX-License-Identifier: MIT
 *
 * What clients send; see incoming.h. */
#include "incoming.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* So much of what is behind a fault is read, lest the answer be lost by a reset of the connection. */
#define DRAINED (64 << 10)

/* By their sockets. The loop's thread has it; all others have none, and read as ever. */
static _Thread_local struct framing **watched;
static _Thread_local size_t room;

bool incoming_watch(int socket, struct framing *framing)
{
    size_t index = (size_t)socket;
    if (index >= room) {
        size_t larger = 2 * index + 64;
        struct framing **table = reallocarray(watched, larger, sizeof(struct framing *));
        if (!table)
            return false;
        memset(table + room, 0, (larger - room) * sizeof(struct framing *));
        watched = table;
        room = larger;
    }
    watched[index] = framing;
    return true;
}

void incoming_forget(int socket)
{
    if ((size_t)socket < room)
        watched[socket] = NULL;
}

static void drain(int socket)
{
    char bytes[4096];
    for (size_t drained = 0; drained < DRAINED; drained += sizeof bytes) {
        if (recvfrom(socket, bytes, sizeof bytes, MSG_DONTWAIT, NULL, NULL) <= 0)
            return;
    }
}

/* All requests before it have been answered, or libmicrohttpd would not read on. To it the client is gone. */
static ssize_t refuse(int socket, const struct framing *framing)
{
    char body[160], answer[512];
    int length = snprintf(body, sizeof body, "{\"error\":\"%s\"}\n", framing->fault);
    length = snprintf(answer, sizeof answer,
                      "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n\r\n%s",
                      framing->too_long ? "431 Request Header Fields Too Large" : "400 Bad Request", length, body);
    drain(socket);
    send(socket, answer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(socket, SHUT_WR);
    return 0;
}

/* Who shuts its side while a part is missing is not heard of again: its end has come before what is looked at next. */
static bool has_ended(int socket)
{
    struct pollfd poll_socket = { .fd = socket, .events = POLLRDHUP };
    return poll(&poll_socket, 1, 0) == 1 && poll_socket.revents & POLLRDHUP;
}

/* There is nothing to take, or more to be said behind it, although nothing more may come: to be asked again. */
static void be_asked_again(int socket, struct framing *framing)
{
    if (!framing->ended && (framing->fault || has_ended(socket))) {
        framing->ended = true;
        shutdown(socket, SHUT_RD);
    }
}

static ssize_t take(int socket, struct framing *framing, void *to, size_t size, int flags)
{
    ssize_t length = recvfrom(socket, to, size < framing->good ? size : (size_t)framing->good, flags, NULL, NULL);
    if (length <= 0)
        return length;
    framing_take(framing, (size_t)length);
    /* The end that came with it is told once, and has been: to be asked again. */
    if (framing->good > 0 && (size_t)length < size && has_ended(socket))
        shutdown(socket, SHUT_RD);
    return length;
}

/* What is looked at stays in the socket until it may be taken. The window has room for the longest part behind all that
 * libmicrohttpd takes at once: so it is given less than it asked for only where nothing more can be taken now. */
static ssize_t read_watched(int socket, struct framing *framing, void *to, size_t size, int flags)
{
    static char window[2 * FRAMING_LONGEST];
    if (framing->good >= size)
        return take(socket, framing, to, size, flags);
    if (framing->good == 0 && framing->fault)
        return refuse(socket, framing);
    ssize_t length = recvfrom(socket, window, sizeof window, flags | MSG_PEEK, NULL, NULL);
    if (length <= 0)
        return length;
    bool all = framing->ended;
    size_t good = framing_look(framing, window, (size_t)length);
    if (good == 0 && framing->fault)
        return refuse(socket, framing);
    if (good < (size_t)length)
        be_asked_again(socket, framing);
    if (good)
        return take(socket, framing, to, size, flags);
    errno = EAGAIN;
    return all ? 0 : -1;
}

/* In place of libc's, for the whole program. */
__attribute__((visibility("default"))) ssize_t recv(int socket, void *to, size_t size, int flags)
{
    struct framing *framing = socket >= 0 && (size_t)socket < room ? watched[socket] : NULL;
    return framing ? read_watched(socket, framing, to, size, flags) : recvfrom(socket, to, size, flags, NULL, NULL);
}
