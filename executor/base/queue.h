/* SPDX-License-Identifier: MIT
 *
 * Where plain tasks wait: the submission queue, for any thread, and the work-stealing deque, one a worker. */
#ifndef STI_EXECUTOR_BASE_QUEUE_H
#define STI_EXECUTOR_BASE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- The submission queue: what threads outside the pool submit, first in, first out, bounded. Any thread. A push
 * never waits for another thread. Protocol and memory orders: queue.c. */

#define STI_QUEUE_CAPACITY_DEFAULT 4096
#define STI_QUEUE_CAPACITY_MAX ((size_t)1 << 24)

struct sti_slot {
    atomic_size_t turn;
    void *_Atomic entry; /* relaxed: turn orders it; atomic for those that only look */
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

/* Call look with each entry that is in, or was taken out a moment ago: visits.h keeps those alive. */
void sti_queue_look(struct sti_queue *queue, void (*look)(void *entry, void *arg), void *arg);

/* How many entries it had at about this moment. */
size_t sti_queue_length(const struct sti_queue *queue);

/* --- The work-stealing deque: its owner pushes and takes at the bottom, any other thread steals at the top. Fixed
 * capacity, no allocation, no lock. Protocol and memory orders: queue.c. */

#define STI_DEQUE_CAPACITY 256 /* a power of two */

/* Thieves write top, the owner writes bottom: a cache line each. */
struct sti_deque {
    _Alignas(64) _Atomic int64_t top;
    _Alignas(64) _Atomic int64_t bottom;
    void *_Atomic slots[STI_DEQUE_CAPACITY];
};

void sti_deque_init(struct sti_deque *deque);

/* Owner only. False: full. */
bool sti_deque_push(struct sti_deque *deque, void *entry);

/* Owner only. The newest entry, or NULL. */
void *sti_deque_take(struct sti_deque *deque);

/* Any thread. The oldest entry, or NULL. */
void *sti_deque_steal(struct sti_deque *deque);

/* Any thread. A guess unless the caller has ordered it against the pushes with a fence (park.c does). */
bool sti_deque_is_empty(struct sti_deque *deque);

/* Any thread. Call look with each entry that is in, or was taken out a moment ago: visits.h keeps those alive. */
void sti_deque_look(struct sti_deque *deque, void (*look)(void *entry, void *arg), void *arg);

/* Any thread. How many entries it had at about this moment. */
size_t sti_deque_length(const struct sti_deque *deque);

#endif
