/* SPDX-License-Identifier: MIT
 *
 * The submission queue: what threads outside the pool submit, first in, first out, bounded. Any thread. A push never
 * waits for another thread. Protocol and memory orders: queue.c. */
#ifndef STI_EXECUTOR_QUEUE_H
#define STI_EXECUTOR_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define STI_QUEUE_CAPACITY_DEFAULT 4096
#define STI_QUEUE_CAPACITY_MAX ((size_t)1 << 24)

struct sti_slot {
    atomic_size_t turn;
    void *_Atomic entry; /* relaxed: turn orders it; atomic for who only looks */
};

struct sti_queue {
    struct sti_slot *slots;
    size_t mask;
    _Alignas(64) atomic_size_t tail;
    _Alignas(64) atomic_size_t head;
};

/* Room for the next power of two of entries, two at least. False: out of memory. */
bool sti_queue_init(struct sti_queue *queue, size_t capacity);

/* Nobody else may use it any more. Entries that are left are the caller's to take out first. */
void sti_queue_end(struct sti_queue *queue);

/* False: full. */
bool sti_queue_push(struct sti_queue *queue, void *entry);

/* The oldest entry. NULL: there is none, or the oldest one's push has not ended. */
void *sti_queue_pop(struct sti_queue *queue);

/* Whether sti_queue_pop would give something; and whether it will never give anything unless there are new pushes.
 * Guesses unless the caller has ordered them against the pushes with a fence (park.c does): then they are right, or err
 * to the side of one look too many. */
bool sti_queue_is_ready(struct sti_queue *queue);
bool sti_queue_is_empty(struct sti_queue *queue);

/* Call look with each entry that is in, or was taken out a moment ago: visit.h keeps those alive. */
void sti_queue_look(struct sti_queue *queue, void (*look)(void *entry, void *arg), void *arg);

/* How many entries it had at about this moment. */
size_t sti_queue_length(const struct sti_queue *queue);

#endif
