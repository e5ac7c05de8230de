/* SPDX-License-Identifier: MIT
 *
 * When a running task has to be looked at; see due.h. */
#include "due.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "clock.h"
#include "scope_state.h"
#include "thread.h"
#include "watch.h"

static uint64_t look_at_threads(struct sti_watch *unused, uint64_t now)
{
    (void)unused;
    uint64_t next = STI_WATCH_NEVER;
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        uint64_t due = atomic_load_explicit(&thread->due, memory_order_seq_cst);
        if (due == STI_DUE_POKED)
            continue;
        if (due > now) {
            next = due < next ? due : next;
        } else if (atomic_compare_exchange_strong_explicit(&thread->due, &due, STI_DUE_POKED, memory_order_seq_cst,
                                                           memory_order_relaxed)) {
            atomic_store_explicit(&thread->limit, 0, memory_order_seq_cst);
        }
    }
    return next;
}

static struct sti_watch watch = { .look = look_at_threads, .only_time = true };
static atomic_bool watched;

/* The child of a fork has no watch. */
static void forget_watch(void)
{
    atomic_store_explicit(&watched, false, memory_order_relaxed);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, forget_watch);
}

/* Where no thread can be started, such tasks are stopped late, as they are without this. */
static void have_watch(void)
{
    bool expected = false;
    if (atomic_load_explicit(&watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&watched, &expected, true, memory_order_relaxed, memory_order_relaxed))
        return;
    if (sti_watch_begin(&watch, 0) != 0)
        atomic_store_explicit(&watched, false, memory_order_relaxed);
}

void sti_due_renew(struct sti_thread *thread, const struct sti_scope *scope)
{
    uint64_t due = STI_DUE_NEVER;
    for (; scope != NULL; scope = scope->outer) {
        if (scope->tripped != STINT_REASON_NONE)
            continue;
        due = scope->deadline < due ? scope->deadline : due;
        due = scope->cpu.look < due ? scope->cpu.look : due;
    }
    atomic_store_explicit(&thread->due, due, memory_order_seq_cst);
    if (due != STI_DUE_NEVER)
        sti_watch_hasten(due);
}

void sti_due_begin(struct sti_thread *thread, const struct sti_scope *scope)
{
    have_watch();
    sti_due_renew(thread, scope);
}

bool sti_due_is_over(const struct sti_thread *thread)
{
    return atomic_load_explicit(&thread->due, memory_order_relaxed) == STI_DUE_POKED;
}

uint64_t sti_due_clock(const struct sti_thread *thread)
{
    return sti_due_is_over(thread) ? sti_clock_now() : sti_clock_coarse();
}
