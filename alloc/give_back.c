/* SPDX-License-Identifier: MIT
 *
 * Giving back what nobody needs; see give_back.h. The state is one word: the number of the round, and how many have not
 * answered yet. An answer to a round that is over changes nothing. */
#include "give_back.h"

#include <pthread.h>
#include <time.h>

#include "backend.h"
#include "clock.h"
#include "heap.h"
#include "thread.h"

#define PATIENCE_NS UINT64_C(1000000000)
#define ROUND_SHIFT 32

static _Atomic uint64_t state;
static atomic_bool under_way;
static sti_give_back_wake *wake_idle; /* set when the library is loaded */

void sti_give_back_listen(sti_give_back_wake *wake)
{
    wake_idle = wake;
}

bool sti_give_back(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread != NULL)
        sti_heap_give_back(thread);
    sti_backend_process_collect();
    return thread != NULL && thread->retired != NULL;
}

void sti_give_back_count(void)
{
    atomic_fetch_add_explicit(&state, 1, memory_order_relaxed);
}

void sti_give_back_answer(uint32_t round)
{
    uint64_t seen = atomic_load_explicit(&state, memory_order_relaxed);
    while (seen >> ROUND_SHIFT == round &&
           !atomic_compare_exchange_weak_explicit(&state, &seen, seen - 1, memory_order_release, memory_order_relaxed))
        ;
}

static bool all_have_answered(void)
{
    return (uint32_t)atomic_load_explicit(&state, memory_order_acquire) == 0;
}

static void await_answers(void)
{
    static const struct timespec nap = { .tv_nsec = 50000 };
    uint64_t end = sti_clock_now() + PATIENCE_NS;
    while (!all_have_answered() && sti_clock_now() < end)
        nanosleep(&nap, NULL);
}

bool sti_give_back_all(void)
{
    if (atomic_exchange_explicit(&under_way, true, memory_order_acquire))
        return false;
    /* 0 is no round. */
    uint32_t round = (uint32_t)(atomic_load_explicit(&state, memory_order_relaxed) >> ROUND_SHIFT) + 1;
    round += round == 0;
    atomic_store_explicit(&state, (uint64_t)round << ROUND_SHIFT, memory_order_relaxed);
    if (wake_idle != NULL)
        wake_idle(round);
    sti_give_back();
    await_answers();
    atomic_store_explicit(&under_way, false, memory_order_release);
    return true;
}

/* The round of a thread that the child does not have. */
static void end_in_child(void)
{
    atomic_store_explicit(&under_way, false, memory_order_relaxed);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, end_in_child);
}
