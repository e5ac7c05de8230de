/* SPDX-License-Identifier: MIT
 *
 * Ending the sleep of a task that is to be interrupted; see waking.h. Thread of the scope. */
#include "waking.h"

#include <stddef.h>

#include "clock.h"
#include "hook.h"
#include "interrupt.h"
#include "watch.h"

/* On the watch's thread. */
static void come(void *arg)
{
    struct sti_waking *waking = arg;
    atomic_store_explicit(&waking->come, true, memory_order_release);
    waking->wake(waking->arg);
}

void sti_waking_begin(struct sti_waking *waking, void (*wake)(void *arg), void *arg)
{
    atomic_init(&waking->come, false);
    waking->wake = wake;
    waking->arg = arg;
    /* Where the watch cannot be started the sleep is as long as what it waits for. */
    if (stint_hook_push(&waking->hook, come, waking) != 0)
        waking->hook.function = NULL;
    waking->covers = sti_waking_cover();
}

void sti_waking_end(struct sti_waking *waking)
{
    if (waking->covers)
        sti_waking_uncover_scopes();
    if (waking->hook.function != NULL)
        stint_hook_pop(&waking->hook);
}

bool sti_waking_is_due(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return false;
    sti_interrupt_look(thread->scope, sti_clock_now());
    return sti_interrupt_is_tripped(thread->scope);
}

bool sti_waking_deliver(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (!sti_waking_is_due())
        return false;
    thread->scope->samples++;
    if (sti_interrupt_deliver(thread))
        return true;
    /* There may be no better place for long. */
    sti_interrupt_last_resort(thread);
    return false;
}

static void cover(struct sti_scope *scope, unsigned change)
{
    sti_watch_lock();
    for (; scope != NULL; scope = scope->outer)
        scope->covered += change;
    sti_watch_unlock();
}

void sti_waking_cover_scopes(void)
{
    cover(sti_thread_metered->scope, 1);
}

void sti_waking_uncover_scopes(void)
{
    cover(sti_thread_metered->scope, -1U);
    /* What has come due meanwhile was passed over. */
    sti_hook_wake_if_flagged(sti_thread_metered->scope);
}
