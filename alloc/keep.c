/* SPDX-License-Identifier: MIT
 *
 * Regions whose blocks outlive a rollback. Calling thread's innermost scope. While there is one every allocation is a
 * sample point, so the fast path knows nothing of them. */
#include <stddef.h>
#include <stint/interrupt.h>
#include <stint/roots.h>

#include "scope_state.h"
#include "thread.h"

void stint_keep_begin(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    stint_mask();
    thread->scope->keeps++;
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

void stint_keep_end(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread->scope->keeps == 0)
        return;
    thread->scope->keeps--;
    stint_unmask();
}
