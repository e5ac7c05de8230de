/* SPDX-License-Identifier: MIT
 *
 * A bounded queue for many producers and many consumers, after Vyukov. head and tail count all pops and pushes so far;
 * position p belongs to slot p modulo the capacity. A slot's turn says whose turn it is there:
 *
 *   turn == p               empty: for the push at position p, which moves tail from p to p+1 to get it
 *   turn == p + 1           full: for the pop at position p, which moves head from p to p+1 to get it
 *   turn == p + capacity    empty again: for the push one round later
 *
 * Moving tail or head only decides who; relaxed. The entry is published by the store of turn (release) and read after
 * the load of turn (acquire), and the same pair hands the empty slot back.
 *
 * Why not Concurrency Kit's ring: its producers finish in the order of their tickets, each spinning until the one
 * before it has. With more threads than processors that one is often not running, and the others spin through their
 * time slices: four producers and two workers on two busy processors were not done with 80,000 tasks after a minute.
 * Here that takes half a second: a producer that is held up half-way delays only the pops behind it. */
#include "queue.h"

#include <stdint.h>

#include "alloc/process.h"

static struct sti_slot *slot_of(struct sti_queue *queue, size_t position)
{
    return &queue->slots[position & queue->mask];
}

/* How far a slot's turn is ahead of the one that is looked for; negative: it has not come yet. */
static intptr_t turns_ahead(struct sti_slot *slot, size_t turn)
{
    return (intptr_t)(atomic_load_explicit(&slot->turn, memory_order_acquire) - turn);
}

bool sti_queue_init(struct sti_queue *queue, size_t capacity)
{
    size_t slots = 2;
    while (slots < capacity)
        slots *= 2;
    queue->slots = sti_process_malloc(slots * sizeof *queue->slots);
    if (queue->slots == NULL)
        return false;
    for (size_t i = 0; i < slots; i++) {
        atomic_init(&queue->slots[i].turn, i);
        atomic_init(&queue->slots[i].entry, NULL);
    }
    queue->mask = slots - 1;
    atomic_init(&queue->tail, 0);
    atomic_init(&queue->head, 0);
    return true;
}

void sti_queue_end(struct sti_queue *queue)
{
    sti_process_free(queue->slots);
}

bool sti_queue_push(struct sti_queue *queue, void *entry)
{
    size_t position = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    for (;;) {
        struct sti_slot *slot = slot_of(queue, position);
        intptr_t ahead = turns_ahead(slot, position);
        if (ahead < 0)
            return false;
        if (ahead > 0) {
            position = atomic_load_explicit(&queue->tail, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&queue->tail, &position, position + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            atomic_store_explicit(&slot->entry, entry, memory_order_relaxed);
            atomic_store_explicit(&slot->turn, position + 1, memory_order_release);
            return true;
        }
    }
}

void *sti_queue_pop(struct sti_queue *queue)
{
    size_t position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    for (;;) {
        struct sti_slot *slot = slot_of(queue, position);
        intptr_t ahead = turns_ahead(slot, position + 1);
        if (ahead < 0)
            return NULL;
        if (ahead > 0) {
            position = atomic_load_explicit(&queue->head, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&queue->head, &position, position + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            void *entry = atomic_load_explicit(&slot->entry, memory_order_relaxed);
            atomic_store_explicit(&slot->turn, position + queue->mask + 1, memory_order_release);
            return entry;
        }
    }
}

bool sti_queue_is_ready(struct sti_queue *queue)
{
    size_t position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    return turns_ahead(slot_of(queue, position), position + 1) >= 0;
}

bool sti_queue_is_empty(struct sti_queue *queue)
{
    /* head first (acquire keeps the order): tail can only have moved on since, so equal means empty. */
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    return atomic_load_explicit(&queue->tail, memory_order_relaxed) == head;
}

/* That the slot is still full when its entry has been read says that it was in after the visitor had begun. */
void sti_queue_look(struct sti_queue *queue, void (*look)(void *entry, void *arg), void *arg)
{
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    size_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    for (size_t position = head; position - head < queue->mask + 1 && position != tail; position++) {
        struct sti_slot *slot = slot_of(queue, position);
        bool full = turns_ahead(slot, position + 1) == 0;
        void *entry = atomic_load_explicit(&slot->entry, memory_order_acquire);
        if (full && turns_ahead(slot, position + 1) == 0)
            look(entry, arg);
    }
}

size_t sti_queue_length(const struct sti_queue *queue)
{
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    size_t length = atomic_load_explicit(&queue->tail, memory_order_relaxed) - head;
    return length > queue->mask ? queue->mask + 1 : length;
}
