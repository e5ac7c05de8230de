/* SPDX-License-Identifier: MIT
 *
 * Which workers sleep and which are woken; states, orders and reasons are in park.h. This file is kept from
 * ThreadSanitizer, which does not know fences: nothing but sleep depends on what is stored here. */
#include "park.h"

#include "alloc/platform/instrumentation.h"
#include "alloc/platform/tracing.h"
#include "alloc/scope/subtask.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "substitute.h"

static _Atomic uint64_t *word_of(stint_pool *pool, unsigned index)
{
    return &pool->lot.parked[index / 64];
}

static uint64_t bit_of(unsigned index)
{
    return UINT64_C(1) << index % 64;
}

/* Take away a worker's right to sleep on. True for one caller. acq_rel is for the order with the same bit's setting;
 * what else must be ordered has a fence. */
static bool clear_bit(stint_pool *pool, unsigned index)
{
    uint64_t bit = bit_of(index);
    return (atomic_fetch_and_explicit(word_of(pool, index), ~bit, memory_order_acq_rel) & bit) != 0;
}

/* For the statistics only (overdue.h). A substitute that is given a place counts as parked from then on, and one whose
 * place is taken away does not, although it sleeps. */
static void note_parked(struct sti_worker *worker, uint64_t since)
{
    atomic_store_explicit(&worker->parked_since, since, memory_order_relaxed);
}

void sti_park_note_awake(struct sti_worker *worker)
{
    worker->idled_since = atomic_exchange_explicit(&worker->parked_since, 0, memory_order_relaxed);
}

static void count_searcher(stint_pool *pool)
{
    atomic_fetch_add_explicit(&pool->lot.searching, 1, memory_order_relaxed);
}

/* True: it was the last. The fence that every caller needs comes with it. */
static bool uncount_searcher(stint_pool *pool)
{
    bool last = atomic_fetch_sub_explicit(&pool->lot.searching, 1, memory_order_relaxed) == 1;
    atomic_thread_fence(memory_order_seq_cst);
    return last;
}

/* Seen by the worker once it has been called. */
static __attribute__((noinline, cold)) void trace_wake(struct sti_worker *worker, uint64_t now)
{
    uint64_t flow = sti_trace_flow(worker, now);
    atomic_store_explicit(&worker->woken_in, sti_trace_wake(now, flow), memory_order_relaxed);
    atomic_store_explicit(&worker->woken_by, flow, memory_order_relaxed);
}

/* Counted before it is awake, so that the next submitter does not wake another. From here on it is not idle any more,
 * even if it is long until it gets a processor. */
static void worker_wake(stint_pool *pool, unsigned index)
{
    struct sti_worker *worker = &pool->workers[index];
    count_searcher(pool);
    uint64_t now = sti_clock_now();
    atomic_store_explicit(&worker->called_ns, now, memory_order_relaxed);
    if (sti_trace_runs())
        trace_wake(worker, now);
    atomic_fetch_add_explicit(&worker->calls, 1, memory_order_release);
    sti_event_signal(&worker->wake);
}

/* The parked worker with the lowest number: the one whose caches are the warmest. acquire: whoever finds a bit cleared
 * by a worker that has left finds the pool closed as well. */
static void wake_one(stint_pool *pool)
{
    unsigned slots = sti_pool_slots(pool);
    for (unsigned first = 0; first < slots; first += 64) {
        uint64_t bits = atomic_load_explicit(word_of(pool, first), memory_order_acquire);
        for (; bits != 0; bits &= bits - 1) {
            unsigned index = first + (unsigned)__builtin_ctzll(bits);
            if (clear_bit(pool, index)) {
                worker_wake(pool, index);
                return;
            }
        }
    }
}

/* After a fence: what was put in before somebody else's fence that came earlier is seen. */
static bool has_work(stint_pool *pool)
{
    if (sti_queue_is_ready(&pool->queue) || sti_fair_queue_are_ready(&pool->fair_queue))
        return true;
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        if (!sti_deque_is_empty(&pool->workers[i].deque) || sti_split_is_public(&pool->workers[i].split))
            return true;
    }
    return false;
}

static void ask_for_forks(stint_pool *pool)
{
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        if (!sti_split_is_public(&pool->workers[i].split))
            sti_split_ask(&pool->workers[i].split);
    }
}

void sti_park_notify(stint_pool *pool)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&pool->lot.searching, memory_order_relaxed) == 0)
        wake_one(pool);
}

void sti_park_notify_shared(stint_pool *pool)
{
    sti_park_notify(pool);
    for (unsigned first = 0; first < sti_pool_slots(pool); first += 64) {
        uint64_t bits = atomic_load_explicit(&pool->lot.awaiting[first / 64], memory_order_relaxed);
        for (; bits != 0; bits &= bits - 1)
            sti_event_signal(&pool->workers[first + (unsigned)__builtin_ctzll(bits)].helped);
    }
}

bool sti_park_is_anybody_idle(stint_pool *pool)
{
    uint64_t idle = atomic_load_explicit(&pool->lot.searching, memory_order_relaxed);
    for (unsigned first = 0; first < sti_pool_slots(pool); first += 64)
        idle |= atomic_load_explicit(word_of(pool, first), memory_order_relaxed);
    return idle != 0;
}

void sti_park_wake(struct sti_worker *worker)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (clear_bit(worker->pool, worker->index))
        worker_wake(worker->pool, worker->index);
    else
        sti_substitute_rouse(worker);
}

void sti_park_notify_all(stint_pool *pool)
{
    atomic_thread_fence(memory_order_seq_cst);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        if (clear_bit(pool, i))
            worker_wake(pool, i);
    }
}

static bool is_unattended(stint_pool *pool)
{
    return atomic_load_explicit(&pool->lot.searching, memory_order_relaxed) == 0 && has_work(pool);
}

void sti_park_place(struct sti_worker *worker)
{
    stint_pool *pool = worker->pool;
    note_parked(worker, sti_clock_now());
    atomic_fetch_or_explicit(word_of(pool, worker->index), UINT64_C(1) << worker->index % 64, memory_order_acq_rel);
    atomic_thread_fence(memory_order_seq_cst);
    if (sti_pool_is_open(pool)) {
        if (is_unattended(pool))
            wake_one(pool);
    } else if (clear_bit(pool, worker->index)) {
        worker_wake(pool, worker->index);
    }
}

struct sti_worker *sti_park_withdraw(stint_pool *pool, unsigned from)
{
    atomic_thread_fence(memory_order_seq_cst);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = from; i < slots; i++) {
        if ((atomic_load_explicit(word_of(pool, i), memory_order_relaxed) >> i % 64 & 1) != 0 && clear_bit(pool, i)) {
            note_parked(&pool->workers[i], 0);
            return &pool->workers[i];
        }
    }
    return NULL;
}

void sti_park_wake_retired(struct sti_worker *worker)
{
    worker_wake(worker->pool, worker->index);
}

void sti_park_hand_on(stint_pool *pool)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (is_unattended(pool))
        wake_one(pool);
}

void sti_park_begin_search(stint_pool *pool)
{
    count_searcher(pool);
}

void sti_park_end_search(stint_pool *pool)
{
    if (uncount_searcher(pool) && has_work(pool))
        wake_one(pool);
}

static bool sleep_traced(struct sti_worker *worker, uint32_t calls)
{
    sti_trace_begin(STI_TRACE_BEGIN_PARK, worker, 0, NULL, NULL);
    bool called = sti_substitute_sleep(worker, calls);
    sti_trace_end(STI_TRACE_END_PARK, worker, atomic_load_explicit(&worker->woken_by, memory_order_relaxed),
                  atomic_load_explicit(&worker->woken_in, memory_order_relaxed));
    return called;
}

bool sti_park_wait(struct sti_worker *worker)
{
    stint_pool *pool = worker->pool;
    atomic_store_explicit(&worker->woken_in, 0, memory_order_relaxed);
    /* Before the bit is set: whoever clears it calls. */
    uint32_t calls = sti_idle_calls(worker);
    note_parked(worker, sti_clock_now());
    atomic_fetch_or_explicit(word_of(pool, worker->index), bit_of(worker->index), memory_order_acq_rel);
    uncount_searcher(pool);

    ask_for_forks(pool);
    sti_subtask_collect();
    bool closed = !sti_pool_is_open(pool) && !sti_subtask_undecided();
    /* A substitute that is one too many has to stand aside: that is something to do as well. */
    bool work = has_work(pool) || (closed && !sti_queue_is_empty(&pool->queue)) || sti_substitute_is_surplus(worker);
    bool ended = closed && sti_fair_queue_waiting(&pool->fair_queue) == 0;
    if ((work || ended) && clear_bit(pool, worker->index)) {
        note_parked(worker, 0);
        if (work)
            count_searcher(pool);
        return work;
    }
    /* Nothing to do; or somebody else cleared the bit, and the call is on its way. */
    STI_PROBE1(park, worker);
    bool called = sti_trace_runs() ? sleep_traced(worker, calls) : sti_substitute_sleep(worker, calls);
    STI_PROBE1(unpark, worker);
    return called;
}

bool sti_park_await(struct sti_worker *worker, const struct sti_offer *offer, uint64_t deadline_ns)
{
    const struct sti_group *group = atomic_load_explicit(&offer->group, memory_order_relaxed);
    stint_pool *pool = worker->pool;
    _Atomic uint64_t *word = &pool->lot.awaiting[worker->index / 64];
    uint32_t value = sti_event_value(&worker->helped);
    atomic_fetch_or_explicit(word, bit_of(worker->index), memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    ask_for_forks(pool);
    sti_subtask_answer();
    bool ready = atomic_load_explicit(&offer->state, memory_order_relaxed) == STI_OFFER_ENDED;
    for (unsigned i = 0; i < sti_pool_slots(pool); i++)
        ready = ready || sti_split_offers(&pool->workers[i].split, group);
    if (!ready)
        ready = sti_event_wait(&worker->helped, value, deadline_ns);
    atomic_fetch_and_explicit(word, ~bit_of(worker->index), memory_order_relaxed);
    return ready;
}
