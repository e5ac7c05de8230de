/* SPDX-License-Identifier: MIT
 *
 * The sleep of a worker that has nothing to do; the protocol is in idle.h. */
#include "idle.h"

#include "alloc/give_back.h"
#include "worker.h"

#define LONG_IDLE_NS UINT64_C(100000000) /* a busy pool's workers never sleep so long */
#define AGAIN_NS UINT64_C(400000000)     /* and while others may free what its tasks have left */

uint32_t sti_idle_calls(const struct sti_worker *worker)
{
    return atomic_load_explicit(&worker->calls, memory_order_acquire);
}

static uint32_t take_asked(struct sti_worker *worker)
{
    return atomic_exchange_explicit(&worker->asked, 0, memory_order_seq_cst);
}

void sti_idle_sleep(struct sti_worker *worker, uint32_t calls)
{
    uint64_t long_idle = sti_deadline_after(LONG_IDLE_NS);
    uint32_t round;
    atomic_store_explicit(&worker->idle, true, memory_order_relaxed);
    for (;;) {
        uint32_t value = sti_event_value(&worker->wake);
        if (sti_idle_calls(worker) != calls)
            break;
        if ((round = take_asked(worker)) != 0) {
            sti_give_back();
            sti_give_back_answer(round);
        } else if (!sti_event_wait(&worker->wake, value, long_idle)) {
            long_idle = sti_give_back() ? sti_deadline_after(AGAIN_NS) : STI_NEVER;
        }
    }
    atomic_store_explicit(&worker->idle, false, memory_order_seq_cst);
    if ((round = take_asked(worker)) != 0)
        sti_give_back_answer(round);
}

void sti_idle_call(struct sti_worker *worker)
{
    atomic_fetch_add_explicit(&worker->calls, 1, memory_order_release);
    sti_event_signal(&worker->wake);
}

void sti_idle_ask(struct sti_worker *worker, uint32_t round)
{
    if (!atomic_load_explicit(&worker->idle, memory_order_relaxed))
        return;
    sti_give_back_count();
    atomic_store_explicit(&worker->asked, round, memory_order_seq_cst);
    sti_event_signal(&worker->wake);
    if (!atomic_load_explicit(&worker->idle, memory_order_seq_cst) && (round = take_asked(worker)) != 0)
        sti_give_back_answer(round);
}
