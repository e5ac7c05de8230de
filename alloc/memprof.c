/* SPDX-License-Identifier: MIT
 *
 * The profile: started, stopped, ended by a fork. One thread at a time changes its state. Any thread. */
#include "memprof_inner.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stint/interrupt.h>

#include "allocate.h"
#include "clock.h"
#include "thread.h"

#define WORD 8
#define SPINS 100

enum state {
    IDLE,
    RUNNING,
    CHANGING, /* a thread is starting or stopping it */
};

_Atomic uint64_t sti_memprof_profile;
struct sti_memprof_settings sti_memprof_settings;
atomic_bool sti_memprof_follows;

static _Atomic enum state state;
static uint64_t profiles; /* so far; of whoever changes the state */
static _Atomic uint64_t users;

bool sti_memprof_enter(uint64_t profile)
{
    sti_memprof_hold();
    if (atomic_load_explicit(&sti_memprof_profile, memory_order_seq_cst) == profile)
        return true;
    sti_memprof_leave();
    return false;
}

void sti_memprof_hold(void)
{
    atomic_fetch_add_explicit(&users, 1, memory_order_seq_cst);
}

/* release: what a user did comes before the end of the wait for it. */
void sti_memprof_leave(void)
{
    atomic_fetch_sub_explicit(&users, 1, memory_order_release);
}

static void await_users(void)
{
    while (atomic_load_explicit(&users, memory_order_seq_cst) > 0)
        sched_yield();
}

static bool is_valid(const stint_memprof_options *options)
{
    if (options == NULL || options->tracker.alloc == NULL || options->callstack_depth > STINT_MEMPROF_DEPTH_MOST)
        return false;
    if (options->interval != 0)
        return options->rate == 0 && options->interval >= WORD;
    return options->rate > 0 && options->rate <= 1;
}

/* acquire and release: each who changes the profile finds it as the last one left it. */
static bool change_from(enum state from)
{
    return atomic_compare_exchange_strong_explicit(&state, &from, CHANGING, memory_order_acquire, memory_order_relaxed);
}

static void change_to(enum state to)
{
    atomic_store_explicit(&state, to, memory_order_release);
}

static void follow(bool follows)
{
    atomic_store_explicit(&sti_memprof_follows, follows, memory_order_relaxed);
    sti_free_by(follows ? sti_memprof_free : STI_BACKEND_FREE);
}

int stint_memprof_start(const stint_memprof_options *options)
{
    if (!is_valid(options))
        return EINVAL;
    if (!change_from(IDLE))
        return EBUSY;
    sti_memprof_settings.options = *options;
    sti_memprof_settings.interval = options->interval != 0 ? (double)options->interval : WORD / options->rate;
    atomic_store_explicit(&sti_memprof_settings.joined, 0, memory_order_relaxed);
    if (options->seed == 0)
        sti_memprof_settings.options.seed = sti_clock_now();
    follow(true);
    /* The number first, then the pokes: thread.h. */
    atomic_store_explicit(&sti_memprof_profile, ++profiles, memory_order_seq_cst);
    sti_thread_poke_all();
    sti_memprof_heartbeat(false, 0, NULL);
    sti_backend_on_heartbeat(sti_memprof_heartbeat);
    change_to(RUNNING);
    return 0;
}

/* What is held outside of the set when it is emptied, a block that realloc moves, may come back to it. */
static bool end_all(void)
{
    struct sti_tracked *entry = sti_tracked_take_all(STINT_MEMPROF_STOPPED);
    bool found = entry != NULL;
    while (entry != NULL) {
        struct sti_tracked *next = entry->next;
        sti_memprof_call_dealloc(entry);
        entry = next;
    }
    return found;
}

int stint_memprof_stop(void)
{
    if (sti_memprof_is_calling())
        return EDEADLK;
    if (!change_from(RUNNING))
        return atomic_load_explicit(&state, memory_order_relaxed) == CHANGING ? EBUSY : EINVAL;
    stint_mask();
    sti_backend_on_heartbeat(NULL);
    atomic_store_explicit(&sti_memprof_profile, 0, memory_order_seq_cst);
    do
        await_users();
    while (end_all());
    await_users();
    follow(false);
    sti_thread_poke_all();
    change_to(IDLE);
    stint_unmask();
    return 0;
}

/* The other threads are gone, whatever they were about to do. */
static void end_in_child(void)
{
    atomic_store_explicit(&sti_memprof_profile, 0, memory_order_relaxed);
    atomic_store_explicit(&users, sti_memprof_is_calling() ? 1 : 0, memory_order_relaxed);
    sti_backend_on_heartbeat(NULL);
    sti_tracked_forget_all();
    follow(false);
    change_to(IDLE);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, end_in_child);
}
