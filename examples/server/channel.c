/* SPDX-License-Identifier: MIT
 *
 * The channel; see channel.h. */
#include "channel.h"
#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <stint/stint.h>

#define FLUSH_NS UINT64_C(250000000)

void channel_open(struct channel *channel, struct mailbox *mailbox, struct mail *mail)
{
    channel->mailbox = mailbox;
    channel->mail = mail;
    sem_init(&channel->wake, 0, 0);
}

unsigned channel_count(const struct channel *channel)
{
    return atomic_load_explicit(&channel->pushed, memory_order_acquire) -
           atomic_load_explicit(&channel->taken, memory_order_seq_cst);
}

static bool is_full(const struct channel *channel)
{
    return channel_count(channel) == CHANNEL_CHUNKS;
}

static bool is_closed(const struct channel *channel)
{
    return atomic_load_explicit(&channel->closed, memory_order_seq_cst);
}

static void wake_writer(void *argument)
{
    struct channel *channel = argument;
    sem_post(&channel->wake);
}

/* The hook wakes it at the deadline and when its token is set: the checkpoint then leaves from here. A post that came
 * too early is still there, and costs a turn. */
static void sleep_until_room(struct channel *channel)
{
    stint_hook hook;
    turn_leave(channel->turn);
    stint_hook_push(&hook, wake_writer, channel);
    stint_blocking_begin();
    while (true) {
        stint_checkpoint();
        atomic_store_explicit(&channel->sleeping, true, memory_order_seq_cst);
        if (!is_full(channel) || is_closed(channel))
            break;
        sem_wait(&channel->wake);
    }
    stint_blocking_end();
    stint_hook_pop(&hook);
}

static struct chunk *make_chunk(void)
{
    struct chunk *chunk = malloc(sizeof *chunk + CHANNEL_CHUNK);
    if (chunk)
        chunk->length = 0;
    return chunk;
}

static void hand_over(struct channel *channel)
{
    unsigned pushed = atomic_load_explicit(&channel->pushed, memory_order_relaxed);
    channel->ring[pushed % CHANNEL_CHUNKS] = channel->filling;
    channel->in_row = channel->whole < channel->filling->length;
    channel->pushed_ns = clock_now();
    atomic_store_explicit(&channel->pushed, pushed + 1, memory_order_release);
    if (is_full(channel) || atomic_load_explicit(&channel->streaming, memory_order_acquire))
        mailbox_post(channel->mailbox, channel->mail);
}

/* Rows stay in one piece where they can: so that an answer that is stopped, often for want of the next chunk, ends
 * behind one. The beginning of a row goes into the next chunk. */
static int hand_over_rows(struct channel *channel)
{
    size_t begun = channel->whole ? channel->filling->length - channel->whole : 0;
    struct chunk *next = begun ? make_chunk() : NULL;
    if (begun && !next)
        return ENOMEM;
    if (begun) {
        memcpy(next->bytes, channel->filling->bytes + channel->whole, begun);
        next->length = begun;
        channel->filling->length = channel->whole;
    }
    hand_over(channel);
    channel->filling = next;
    channel->whole = 0;
    return 0;
}

/* In the keep region it is masked too: a chunk is in the ring, or being filled, and never both. */
static int push(struct channel *channel)
{
    if (is_full(channel))
        sleep_until_room(channel);
    if (is_closed(channel))
        return ECANCELED;
    stint_keep_begin();
    int error = hand_over_rows(channel);
    stint_keep_end();
    return error;
}

static int begin_chunk(struct channel *channel)
{
    stint_keep_begin();
    channel->filling = make_chunk();
    stint_keep_end();
    return channel->filling ? 0 : ENOMEM;
}

int channel_write(struct channel *channel, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length) {
        int error = channel->filling ? 0 : begin_chunk(channel);
        if (error)
            return error;
        struct chunk *chunk = channel->filling;
        size_t room = CHANNEL_CHUNK - chunk->length;
        size_t part = length < room ? length : room;
        memcpy(chunk->bytes + chunk->length, from, part);
        chunk->length += part;
        from += part;
        length -= part;
        if (chunk->length == CHANNEL_CHUNK && (error = push(channel)))
            return error;
    }
    return 0;
}

int channel_end_row(struct channel *channel)
{
    /* In this order for the loop, which reads them when a jump has come in between. */
    if (channel->filling)
        channel->whole = channel->filling->length;
    atomic_signal_fence(memory_order_release);
    channel->in_row = false;
    if (!channel->filling)
        return 0;
    bool due =
        atomic_load_explicit(&channel->streaming, memory_order_relaxed) && clock_now() - channel->pushed_ns > FLUSH_NS;
    return due ? push(channel) : 0;
}

struct chunk *channel_take(struct channel *channel)
{
    unsigned taken = atomic_load_explicit(&channel->taken, memory_order_relaxed);
    if (taken == atomic_load_explicit(&channel->pushed, memory_order_acquire))
        return NULL;
    struct chunk *chunk = channel->ring[taken % CHANNEL_CHUNKS];
    atomic_store_explicit(&channel->taken, taken + 1, memory_order_seq_cst);
    if (atomic_exchange_explicit(&channel->sleeping, false, memory_order_seq_cst))
        sem_post(&channel->wake);
    return chunk;
}

size_t channel_length(const struct channel *channel)
{
    size_t length = channel->filling ? channel->filling->length : 0;
    unsigned pushed = atomic_load_explicit(&channel->pushed, memory_order_acquire);
    for (unsigned i = atomic_load_explicit(&channel->taken, memory_order_relaxed); i != pushed; i++)
        length += channel->ring[i % CHANNEL_CHUNKS]->length;
    return length;
}

void channel_stop(struct channel *channel)
{
    atomic_store_explicit(&channel->closed, true, memory_order_seq_cst);
    if (atomic_exchange_explicit(&channel->sleeping, false, memory_order_seq_cst))
        sem_post(&channel->wake);
}

void channel_close(struct channel *channel)
{
    struct chunk *chunk;
    while ((chunk = channel_take(channel)))
        free(chunk);
    free(channel->filling);
    channel->filling = NULL;
    sem_destroy(&channel->wake);
}
