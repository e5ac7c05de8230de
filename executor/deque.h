/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque: its owner pushes and takes at the bottom, any other thread steals at the top. Fixed
 * capacity, no allocation, no lock. Protocol and memory orders: deque.c. */
#ifndef STI_EXECUTOR_DEQUE_H
#define STI_EXECUTOR_DEQUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Any thread. Call look with each entry that is in, or was taken out a moment ago: visit.h keeps those alive. */
void sti_deque_look(struct sti_deque *deque, void (*look)(void *entry, void *arg), void *arg);

/* Any thread. How many entries it had at about this moment. */
size_t sti_deque_length(const struct sti_deque *deque);

#endif
