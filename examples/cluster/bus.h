/* SPDX-License-Identifier: MIT
 *
 * The connection to the servers, for both programs: how it is made, and what is said when it is lost and found again.
 * Never called inside a task: what the client keeps must outlive every rollback. */
#ifndef CLUSTER_BUS_H
#define CLUSTER_BUS_H

#include <nats/nats.h>
#include <stdatomic.h>
#include <stdbool.h>

#define BUS_SERVERS_MAX 64

typedef struct bus_options {
    const char *program; /* begins each line on standard error */
    const char *servers; /* URL[,URL...] */
    const char *creds;   /* a file; NULL: none */
    const char *tls_ca;  /* a file of certificates; NULL: what the URL says */
} bus_options;

struct bus {
    const char *program;
    natsConnection *connection;
    jsCtx *js;
    atomic_bool connected;
    atomic_bool closing; /* by us */
    atomic_bool closed;  /* for good: the servers refuse to take it back */
    atomic_uint reconnects;
};

/* Connect; it then reconnects by itself for as long as it takes, and says so. False: a line on standard error has said
 * why not, and nothing is left to close. */
bool bus_open(struct bus *bus, const bus_options *options);

void bus_close(struct bus *bus);

/* A line on standard error. Any thread. */
void bus_say(const struct bus *bus, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes that a document may have for a message to have room for it. */
size_t bus_most_bytes(const struct bus *bus, size_t headers);

/* What a failed call's status means, with the client's own words of the calling thread's last error. */
const char *bus_error(natsStatus status);

#endif
