/* SPDX-License-Identifier: MIT
 *
 * The submission queue of executor/base/queue.c, with two slots: a thread that pushes three entries, one that takes
 * two, and a visitor who looks in between: an entry that the visitor is shown has been written. */
#include "two_slots.h"

static void *taker(void *arg)
{
    take_entry(sti_queue_pop(&queue));
    take_entry(sti_queue_pop(&queue));
    return arg;
}

static void see(void *entry, void *arg)
{
    const int *number = entry;
    (void)arg;
    assert(*number == (int)(number - numbers) + 1);
}

static void *visitor(void *arg)
{
    sti_queue_look(&queue, see, NULL);
    return arg;
}

int main(void)
{
    pthread_t one, other;
    sti_queue_init(&queue, 2);
    START(one, taker);
    START(other, visitor);
    for (int i = 0; i < 3; i++) {
        write_entry(i);
        if (!sti_queue_push(&queue, &numbers[i]))
            take_entry(&numbers[i]);
    }
    END(one);
    END(other);
    take_entry(sti_queue_pop(&queue));
    take_entry(sti_queue_pop(&queue));
    assert_all_taken(3);
    return 0;
}
