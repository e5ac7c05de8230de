/* SPDX-License-Identifier: MIT
 *
 * Locks of the executor's that nobody holds at a fork(2); see outer_lock.h. Any thread. */
#include "outer_lock.h"

#include <stddef.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"

STI_AT_FORKS struct sti_outer_mutex sti_outer_locks[STI_OUTER_LOCKS] = {
    [0 ... STI_OUTER_LOCKS - 1] = { PTHREAD_MUTEX_INITIALIZER },
};

STI_FORK_HANDLER void sti_outer_before_fork(void)
{
    if (!sti_fork_takes_locks)
        return;
    for (size_t i = 0; i < STI_OUTER_LOCKS; i++)
        sti_plain_mutex_lock(&sti_outer_locks[i].mutex);
}

STI_FORK_HANDLER void sti_outer_after_fork(void)
{
    if (!sti_fork_takes_locks)
        return;
    for (size_t i = 0; i < STI_OUTER_LOCKS; i++)
        sti_plain_mutex_unlock(&sti_outer_locks[i].mutex);
}
