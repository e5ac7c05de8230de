/* SPDX-License-Identifier: MIT
 *
 * Sending the parcels: many at once, each until a server has confirmed it. The confirmations come on a thread of the
 * client's; so the states of the parcels are under the sender's lock, and their records are the main thread's. All
 * functions are for the main thread. */
#ifndef CLUSTER_SEND_H
#define CLUSTER_SEND_H

#include "bus.h"
#include "parcels.h"

#include <pthread.h>

struct sender {
    struct bus *bus;
    const char *stream, *run;
    struct parcels *parcels;
    jsCtx *js;              /* one of its own: with a handler for confirmations */
    size_t most_bytes;      /* of a document */
    pthread_mutex_t lock;   /* over what follows, and the states of the parcels */
    pthread_cond_t settled; /* nothing is under way */
    size_t next;            /* before it nothing waits */
    size_t sending, sending_bytes, confirmed;
    uint64_t not_before_ns;
    bool said_full;
    /* The main thread's: what the stream has room for, as far as is known, without a limit as much as can be. */
    uint64_t room_jobs, room_bytes, asked_ns;
    char refused[256]; /* why no more can be sent; empty: it can */
};

/* False: a line on standard error has said why. */
bool sender_open(struct sender *sender, struct bus *bus, const char *stream, const char *run, struct parcels *parcels);
void sender_close(struct sender *sender);

/* Send what may be under way at once. False: no more can be sent; a line on standard error has said why. */
bool sender_send(struct sender *sender);

/* Wait until nothing is under way, at most so long. */
void sender_settle(struct sender *sender, unsigned timeout_ms);

/* Whether a server has confirmed any. */
bool sender_has_sent(struct sender *sender);

#endif
