/* SPDX-License-Identifier: MIT
 *
 * stint_submit_at: a task that waits for its time. Any thread. */
#include <errno.h>
#include <stint/delayed.h>

#include "alloc/record.h"
#include "delays.h"

int stint_submit_at(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t start_ns,
                    stint_future **future)
{
    struct sti_delayed *delayed;
    if (future == NULL || start_ns == 0)
        return EINVAL;
    if (!sti_record_charge(sizeof *delayed, STI_CALLER()))
        return ENOMEM;
    int error = sti_delayed_create(pool, sizeof *delayed, fn, arg, options, &delayed);
    if (error != 0)
        return error;
    delayed->start_ns = start_ns;
    *future = &delayed->task; /* before it can start */
    error = sti_delayed_begin(delayed);
    if (error != 0)
        *future = NULL;
    return error;
}
