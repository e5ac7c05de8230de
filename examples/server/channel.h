/* SPDX-License-Identifier: MIT
 *
 * The channel: the bytes of one answer on their way from the query, on a worker, to the event loop, which sends them.
 * It holds four chunks at most. When they are full the query sleeps in a blocking region, so that a slow reader costs
 * its own query time, and nobody else a worker.
 *
 * Chunks outlive the task, as the loop may be sending one when the task is rolled back: so they are made in a keep
 * region. They are charged to the task's allocation limit, so an answer counts as work; what of them lies in the
 * channel is not charged to its memory limit, and is bounded by the channel itself.
 *
 * One thread writes, one reads. pushed and taken count chunks since the beginning; the writer stores a chunk, then
 * pushed (release), the reader loads pushed (acquire), then the chunk; taken goes the other way. Before it sleeps the
 * writer sets sleeping, then looks at taken once more; the reader adds to taken, then looks at sleeping; all four
 * sequentially consistent, so one of them sees the other. */
#ifndef SERVER_CHANNEL_H
#define SERVER_CHANNEL_H

#include "mailbox.h"
#include "turns.h"

#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_CHUNKS 4
#define CHANNEL_CHUNK (16384 - sizeof(struct chunk))

struct chunk {
    size_t length;
    char bytes[];
};

struct channel {
    struct mailbox *mailbox;
    struct mail *mail; /* what is posted when there is something to send */

    /* The writer's; the reader's when the query has ended. */
    struct chunk *filling; /* NULL: there is none yet */
    size_t whole;          /* bytes in it up to the end of the last row */
    bool in_row;           /* the chunk before it ended in the midst of a row */
    uint64_t pushed_ns;
    struct turn *turn; /* its query's: given back before it sleeps */

    /* Of both. */
    struct chunk *ring[CHANNEL_CHUNKS];
    atomic_uint pushed, taken;
    atomic_bool streaming; /* the reader wants to know of each chunk, and not only when the channel is full */
    atomic_bool closed;    /* nobody reads any more */
    atomic_bool sleeping;
    sem_t wake;
};

/* The loop, before the query is submitted. */
void channel_open(struct channel *channel, struct mailbox *mailbox, struct mail *mail);

/* The writer. Sleeps where the channel is full. 0; ENOMEM; ECANCELED: nobody reads any more. May be where the task is
 * interrupted; then what was written last may be there in part. */
int channel_write(struct channel *channel, const void *bytes, size_t length);

/* The writer: a row ends here. Once the answer has begun to be sent, rows are handed on four times a second. */
int channel_end_row(struct channel *channel);

/* The loop: the oldest chunk, now the caller's to be freed; NULL: there is none. */
struct chunk *channel_take(struct channel *channel);

/* The loop: chunks that can be taken. */
unsigned channel_count(const struct channel *channel);

/* The loop: bytes of them, and of what is still being filled; only when the query has ended. */
size_t channel_length(const struct channel *channel);

/* The loop: nobody reads any more; the writer is told. */
void channel_stop(struct channel *channel);

/* The loop, when the query has ended: free what is left. */
void channel_close(struct channel *channel);

#endif
