/* SPDX-License-Identifier: MIT
 *
 * Stepping aside from the scopes that the calling thread is in, and back; see aside.h.
 *
 * Scopes opened meanwhile leave the thread's record as the outermost ones do: so what the scopes below need of it is kept
 * here. A limit of 0 makes the next allocation a sample point, which computes the rest anew. */
#include "aside.h"

void sti_aside_begin(struct sti_aside *aside)
{
    struct sti_thread *thread = sti_thread_metered;
    aside->thread = thread;
    if (thread == NULL)
        return;
    aside->scope = thread->scope;
    aside->allocating = thread->allocating;
    aside->small = thread->small;
    aside->started = atomic_load_explicit(&thread->started, memory_order_relaxed);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    sti_thread_return_to(thread, NULL);
}

void sti_aside_end(const struct sti_aside *aside)
{
    struct sti_thread *thread = aside->thread;
    if (thread == NULL)
        return;
    thread->scope = aside->scope;
    thread->allocating = aside->allocating;
    thread->small = aside->small;
    atomic_store_explicit(&thread->started, aside->started, memory_order_relaxed);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    sti_thread_enter(thread);
}
