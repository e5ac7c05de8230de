/* SPDX-License-Identifier: MIT
 *
 * Billing: the processor time that a worker spends on a task, or on a stolen subtask, for the tenant that it is charged to.
 * By the worker's own thread. */
#ifndef STI_EXECUTOR_BILL_H
#define STI_EXECUTOR_BILL_H

#include <stdint.h>

#include "tenants.h"

struct sti_worker;

/* From begin to end. They nest: what an inner one took is not the outer one's. */
struct sti_stretch {
    uint64_t begin; /* processor time of the thread */
    uint64_t inner; /* what the outer one had of it in inner ones */
    struct sti_bill bill;
};

struct sti_stretch sti_bill_begin(struct sti_worker *worker, struct sti_bill bill);
void sti_bill_end(struct sti_worker *worker, const struct sti_stretch *stretch);

#endif
