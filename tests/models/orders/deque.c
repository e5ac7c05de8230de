/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque of executor/base/queue.c, with two slots: an owner and two thieves. Each entry is taken once,
 * and whoever takes it sees it written. */
#include "program.h"
#include "queue.h"
#undef STI_DEQUE_CAPACITY
#define STI_DEQUE_CAPACITY 2
#include "source.c"

void *sti_process_malloc(size_t size)
{
    return malloc(size);
}

void sti_process_free(void *block)
{
    free(block);
}

static struct sti_deque deque;

static void *thief(void *arg)
{
    take_entry(sti_deque_steal(&deque));
    return arg;
}

static void push(int i)
{
    write_entry(i);
    if (!sti_deque_push(&deque, &numbers[i]))
        take_entry(&numbers[i]);
}

int main(void)
{
    pthread_t one, other;
    sti_deque_init(&deque);
    START(one, thief);
    START(other, thief);
    push(0);
    push(1);
    take_entry(sti_deque_take(&deque));
    push(2);
    take_entry(sti_deque_take(&deque));
    take_entry(sti_deque_take(&deque));
    END(one);
    END(other);
    take_entry(sti_deque_take(&deque));
    take_entry(sti_deque_take(&deque));
    assert_all_taken(3);
    return 0;
}
