/* SPDX-License-Identifier: MIT
 *
 * The submission queue: what threads outside the pool submit, first in, first out, bounded. Any thread. */
#ifndef STI_EXECUTOR_QUEUE_H
#define STI_EXECUTOR_QUEUE_H

#include <ck_ring.h>
#include <stdbool.h>
#include <stddef.h>

#define STI_QUEUE_CAPACITY_DEFAULT 4096
#define STI_QUEUE_CAPACITY_MAX ((size_t)1 << 24)

struct sti_queue {
    ck_ring_t ring;
    ck_ring_buffer_t *slots;
};

/* Room for at least capacity entries: the next power of two less one. False: out of memory. */
bool sti_queue_init(struct sti_queue *queue, size_t capacity);

/* Nobody else may use it any more. Entries that are left are the caller's to take out first. */
void sti_queue_end(struct sti_queue *queue);

/* False: full. */
bool sti_queue_push(struct sti_queue *queue, void *entry);

/* The oldest entry, or NULL. */
void *sti_queue_pop(struct sti_queue *queue);

/* A guess unless the caller has ordered it against the pushes with a fence (park.c does). */
bool sti_queue_is_empty(const struct sti_queue *queue);

#endif
