/* SPDX-License-Identifier: MIT
 *
 * Where a program listens; see address.h. */
#include "address.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

/* getaddrinfo takes the lower half of a port that is too large. */
static bool is_port(const char *text)
{
    uint64_t number;
    return isalpha((unsigned char)text[0]) || (text_read_number(text, &number) && number <= UINT16_MAX);
}

int address_read(struct address *address, const char *text, int flags)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
    char host[NI_MAXHOST];
    if (!colon || length >= sizeof host || !is_port(colon + 1))
        return EAI_SERVICE;
    memcpy(host, text + brackets, length);
    host[length - 2 * (size_t)brackets] = 0;
    struct addrinfo hints = { .ai_flags = flags | AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *found = NULL;
    int error = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &found);
    if (error)
        return error;
    address->length = found->ai_addrlen;
    memcpy(&address->socket, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

int address_listen(const struct address *address, int backlog)
{
    int listener = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return -1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (bind(listener, (const struct sockaddr *)&address->socket, address->length) == 0 &&
        listen(listener, backlog) == 0)
        return listener;
    int error = errno;
    close(listener);
    errno = error;
    return -1;
}
