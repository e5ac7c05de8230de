/* SPDX-License-Identifier: MIT
 *
 * Billing; see bill.h. To read a thread's processor time is a system call, so the reading at one's end does for the next
 * one's beginning as well, where the worker goes from one to the other; to have found it is part of its cost then. */
#include "bill.h"

#include <stddef.h>

#include "alloc/clock.h"
#include "pool_state.h"
#include "worker.h"

struct sti_stretch sti_bill_begin(struct sti_worker *worker, struct sti_bill bill)
{
    uint64_t now = worker->clock != 0 ? worker->clock : sti_clock_read(CLOCK_THREAD_CPUTIME_ID);
    struct sti_stretch stretch = { .begin = now, .inner = worker->inner, .bill = bill };
    worker->bill.tenant = NULL;
    worker->clock = 0;
    worker->inner = 0;
    return stretch;
}

void sti_bill_end(struct sti_worker *worker, const struct sti_stretch *stretch)
{
    uint64_t now = sti_clock_read(CLOCK_THREAD_CPUTIME_ID);
    uint64_t used = now - stretch->begin;
    sti_tenants_settle(&worker->pool->tenants, stretch->bill, used - worker->inner);
    worker->inner = stretch->inner + used;
    worker->clock = now;
}
