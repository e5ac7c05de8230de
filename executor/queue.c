/* SPDX-License-Identifier: MIT
 *
 * Concurrency Kit's ring, many producers and many consumers; see queue.h. A ring of n slots holds n-1 entries, and
 * refuses the n-th every time. Its inline assembly is hidden from ThreadSanitizer; what an entry points to is published
 * by the entry's own atomic state (task.h), which is not. */
#include "queue.h"

#include "alloc/process.h"

bool sti_queue_init(struct sti_queue *queue, size_t capacity)
{
    unsigned slots = 2;
    while (slots - 1 < capacity)
        slots *= 2;
    queue->slots = sti_process_malloc(slots * sizeof *queue->slots);
    if (queue->slots == NULL)
        return false;
    ck_ring_init(&queue->ring, slots);
    return true;
}

void sti_queue_end(struct sti_queue *queue)
{
    sti_process_free(queue->slots);
}

bool sti_queue_push(struct sti_queue *queue, void *entry)
{
    return ck_ring_enqueue_mpmc(&queue->ring, queue->slots, entry);
}

void *sti_queue_pop(struct sti_queue *queue)
{
    void *entry;
    return ck_ring_dequeue_mpmc(&queue->ring, queue->slots, &entry) ? entry : NULL;
}

bool sti_queue_is_empty(const struct sti_queue *queue)
{
    return ck_ring_size(&queue->ring) == 0;
}
