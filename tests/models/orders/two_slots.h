/* SPDX-License-Identifier: MIT
 *
 * The submission queue of executor/base/queue.c, with two slots, and what it asks of the library. */
#ifndef TESTS_MODELS_ORDERS_TWO_SLOTS_H
#define TESTS_MODELS_ORDERS_TWO_SLOTS_H

#include "program.h"
#include "queue.h"
#include "source.c"

static struct sti_slot slots[2];
static struct sti_queue queue;

void *sti_process_malloc(size_t size)
{
    assert(size == sizeof slots);
    return slots;
}

void sti_process_free(void *block)
{
    (void)block;
}

#endif
