/* SPDX-License-Identifier: MIT
 *
 * Blocking regions; see blocking.h. Calling thread's innermost scope. */
#include "blocking.h"

#include <stddef.h>
#include <stint/blocking.h>

#include "interrupt.h"
#include "scope_state.h"
#include "thread.h"

static _Thread_local const struct sti_lender *lender;

void sti_blocking_set_lender(const struct sti_lender *new_lender)
{
    lender = new_lender;
}

void sti_blocking_sleep(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && lender != NULL && thread->scope->regions++ == 0)
        lender->falls_asleep();
}

void sti_blocking_awake(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && thread->scope->regions > 0 && --thread->scope->regions == 0)
        lender->is_awake();
}

void stint_blocking_begin(void)
{
    sti_blocking_sleep();
}

void stint_blocking_end(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread->scope->regions == 0 || --thread->scope->regions > 0)
        return;
    lender->is_awake();
    sti_interrupt_point(thread);
}

void sti_blocking_close(struct sti_scope *scope)
{
    scope->regions = 0;
    lender->is_awake();
}
