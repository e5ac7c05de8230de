/* SPDX-License-Identifier: MIT
 *
 * What clients send; see incoming.h. */
#include "incoming.h"

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
                      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n\r\n%s",
                      length, body);
    drain(socket);
    send(socket, answer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(socket, SHUT_WR);
    return 0;
}

static ssize_t read_watched(int socket, struct framing *framing, void *to, size_t size, int flags)
{
    if (framing->fault)
        return refuse(socket, framing);
    ssize_t length = recvfrom(socket, to, size, flags, NULL, NULL);
    if (length <= 0)
        return length;
    size_t good = framing_read(framing, to, (size_t)length);
    if (framing->fault && good == 0)
        return refuse(socket, framing);
    /* There is more to be said, although nothing more may come: to be asked again. */
    if (framing->fault)
        shutdown(socket, SHUT_RD);
    return (ssize_t)good;
}

/* In place of libc's, for the whole program. */
__attribute__((visibility("default"))) ssize_t recv(int socket, void *to, size_t size, int flags)
{
    struct framing *framing = socket >= 0 && (size_t)socket < room ? watched[socket] : NULL;
    return framing ? read_watched(socket, framing, to, size, flags) : recvfrom(socket, to, size, flags, NULL, NULL);
}
