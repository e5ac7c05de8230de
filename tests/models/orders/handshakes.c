/* SPDX-License-Identifier: MIT
 *
 * The handshakes of the library, each as the code has it, and nothing else of it: two sides, each of which says
 * something and then looks at what the other has said, do not miss each other. */
#include "program.h"

/* As the code has it; and what -DWEAK makes of it, which is one step weaker. */
#ifndef WEAK
#define STORE memory_order_seq_cst
#define LOAD memory_order_seq_cst
#define FENCE memory_order_seq_cst
#define RELEASE memory_order_release
#define ACQUIRE memory_order_acquire
#else
#define STORE memory_order_release
#define LOAD memory_order_acquire
#define FENCE memory_order_acq_rel
#define RELEASE memory_order_relaxed
#define ACQUIRE memory_order_relaxed
#endif

#if defined(REQUEST)

/* alloc/platform/thread.h: the owner's limit and the flags. The record may be on the list, or be put there. */
static atomic_bool flag;
static atomic_ulong requests;
static _Atomic(atomic_ulong *) records;
static atomic_ulong limit;
static bool seen;

static void *one(void *arg)
{
    atomic_ulong *none = NULL;
#ifdef NEW
    atomic_compare_exchange_strong_explicit(&records, &none, &limit, STORE, memory_order_relaxed);
    atomic_store_explicit(&limit, 100, memory_order_seq_cst);
#else
    atomic_store_explicit(&limit, 100, STORE);
#endif
    (void)none;
    atomic_load_explicit(&requests, memory_order_seq_cst);
    seen = atomic_load_explicit(&flag, memory_order_seq_cst);
    return arg;
}

static void *other(void *arg)
{
    atomic_store_explicit(&flag, true, memory_order_seq_cst);
    atomic_fetch_add_explicit(&requests, 1, memory_order_seq_cst);
    atomic_ulong *record = atomic_load_explicit(&records, LOAD);
    if (record != NULL)
        atomic_store_explicit(record, 0, memory_order_seq_cst);
    return arg;
}

static void begin(void)
{
#ifndef NEW
    atomic_store_explicit(&records, &limit, memory_order_relaxed);
#endif
}

static void end(void)
{
    assert(seen || atomic_load_explicit(&limit, memory_order_relaxed) == 0);
}

#elif defined(DEADLINE)

/* alloc/interrupt/watch.h: the watch says that a time has come, and requests a sample; the thread stores its limit and
 * asks whether it has. */
static atomic_ulong next_deadline = 5;
static atomic_ulong limit;
static bool seen;

static void *one(void *arg)
{
    atomic_store_explicit(&limit, 100, memory_order_seq_cst);
    seen = atomic_load_explicit(&next_deadline, LOAD) == 0;
    return arg;
}

static void *other(void *arg)
{
    unsigned long due = 5;
    atomic_compare_exchange_strong_explicit(&next_deadline, &due, 0, memory_order_seq_cst, memory_order_relaxed);
    atomic_store_explicit(&limit, 0, memory_order_seq_cst);
    return arg;
}

static void begin(void)
{
}

static void end(void)
{
    assert(seen || atomic_load_explicit(&limit, memory_order_relaxed) == 0);
}

#elif defined(PARK)

/* executor/worker/park.c: a task is put in, by the release of a queue; a worker sets its bit, and is a searcher no
 * more. */
static atomic_bool task;
static atomic_uint searching = 1;
static atomic_ulong parked;
static bool woken;
static bool found;

static void *one(void *arg)
{
    atomic_store_explicit(&task, true, memory_order_release);
    atomic_thread_fence(FENCE);
    if (atomic_load_explicit(&searching, memory_order_relaxed) == 0)
        woken = (atomic_fetch_and_explicit(&parked, 0, memory_order_acq_rel) & 1) != 0;
    else
        woken = false;
    return arg;
}

static void *other(void *arg)
{
    atomic_fetch_or_explicit(&parked, 1, memory_order_acq_rel);
    atomic_fetch_sub_explicit(&searching, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    found = atomic_load_explicit(&task, memory_order_acquire);
    return arg;
}

static void begin(void)
{
}

static void end(void)
{
    assert(woken || found);
}

#elif defined(PREEMPT)

/* alloc/interrupt/signals.c: a signal that is on its way is not sent again; its handler sees the reason. */
static atomic_bool reason;
static atomic_bool asked = true;
static bool sent;
static bool seen;

static void *one(void *arg)
{
    atomic_store_explicit(&reason, true, STORE);
    sent = !atomic_exchange_explicit(&asked, true, memory_order_seq_cst);
    return arg;
}

static void *other(void *arg)
{
    atomic_store_explicit(&asked, false, STORE);
    seen = atomic_load_explicit(&reason, memory_order_seq_cst);
    return arg;
}

static void begin(void)
{
}

static void end(void)
{
    assert(sent || seen);
}

#elif defined(VICTIM)

/* alloc/meter/global.c: a task begins on a thread; it is not chosen to end for what the one before it held. */
static atomic_ulong held = 1000;
static atomic_ulong task = 1;
static bool chosen;

static void *one(void *arg)
{
    atomic_store_explicit(&held, 0, memory_order_relaxed);
    atomic_store_explicit(&task, 2, RELEASE);
    return arg;
}

static void *other(void *arg)
{
    unsigned long number = atomic_load_explicit(&task, ACQUIRE);
    chosen = atomic_load_explicit(&held, memory_order_relaxed) == 1000 && number == 2;
    return arg;
}

static void begin(void)
{
}

static void end(void)
{
    assert(!chosen);
}

#endif

int main(void)
{
    pthread_t threads[2];
    begin();
    START(threads[0], one);
    START(threads[1], other);
    END(threads[0]);
    END(threads[1]);
    end();
    return 0;
}
