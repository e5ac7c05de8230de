/* SPDX-License-Identifier: MIT
 *
 * Waiting for a slot (executor/queue/queue_slots.h) of the queue in executor/base/queue.c, which is full: the waiter
 * counts itself, passes a fence and tries once more; the taker takes an entry, passes a fence and looks at the count.
 * So the waiter gets the slot, or the taker finds the waiter.
 *
 *   -DNO_FENCE  the waiter counts itself by a seq_cst read-modify-write, and that is all: its try reads the queue by
 *               weaker loads, and both miss each other */
#include "two_slots.h"

static atomic_uint line;
static bool wanted;

static void *taker(void *arg)
{
    take_entry(sti_queue_pop(&queue));
    atomic_thread_fence(memory_order_seq_cst);
    wanted = atomic_load_explicit(&line, memory_order_relaxed) != 0;
    return arg;
}

int main(void)
{
    pthread_t thread;
    sti_queue_init(&queue, 2);
    for (int i = 0; i < 3; i++)
        write_entry(i);
    sti_queue_push(&queue, &numbers[0]);
    sti_queue_push(&queue, &numbers[1]);
    START(thread, taker);
#ifdef NO_FENCE
    atomic_fetch_add_explicit(&line, 1, memory_order_seq_cst);
#else
    atomic_fetch_add_explicit(&line, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
#endif
    bool pushed = sti_queue_push(&queue, &numbers[2]);
    END(thread);
    assert(pushed || wanted);
    return 0;
}
