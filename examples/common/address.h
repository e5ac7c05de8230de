/* SPDX-License-Identifier: MIT
 *
 * Where a program listens: 127.0.0.1:8080, [::1]:8080. Any thread. */
#ifndef COMMON_ADDRESS_H
#define COMMON_ADDRESS_H

#include <sys/socket.h>

struct address {
    struct sockaddr_storage socket;
    socklen_t length;
};

/* "ADDR:PORT", with getaddrinfo's flags; without an ADDR all of the machine's. 0, or what gai_strerror knows. */
int address_read(struct address *address, const char *text, int flags);

/* A socket that listens there and blocks nobody; -1 with errno. */
int address_listen(const struct address *address, int backlog);

#endif
