/* SPDX-License-Identifier: MIT
 *
 * The profile: started and stopped, its calls of the user's tracker, and what becomes of followed blocks when a heap
 * ends; see memprof.h. */
#include "memprof.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stint/interrupt.h>

#include "alloc/heap/free.h"
#include "alloc/heap/heap.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/link.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/thread.h"
#include "followed.h"
#include "gathered.h"
#include "sample.h"

/* --- The profile: started, stopped, ended by a fork(2). One thread at a time changes its state. Any thread. --- */

#define WORD 8

enum state {
    IDLE,
    RUNNING,
    CHANGING, /* a thread is starting or stopping it */
};

struct sti_memprof_settings sti_memprof_settings;

static _Atomic enum state state;
static uint64_t profiles; /* so far; written by the thread that changes the state */
static _Atomic uint64_t users;

bool sti_memprof_enter(uint64_t profile)
{
    sti_memprof_hold();
    if (atomic_load_explicit(&sti_sampling_profile, memory_order_seq_cst) == profile)
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
    if (options->tracker.alloc == NULL || options->callstack_depth > STINT_MEMPROF_DEPTH_MAX)
        return false;
    if (options->interval != 0)
        return options->rate == 0 && options->interval >= WORD;
    return options->rate > 0 && options->rate <= 1;
}

/* acquire and release: each thread that changes the profile finds it as the last one left it. */
static bool change_from(enum state from)
{
    return atomic_compare_exchange_strong_explicit(&state, &from, CHANGING, memory_order_acquire, memory_order_relaxed);
}

static void change_to(enum state to)
{
    atomic_store_explicit(&state, to, memory_order_release);
}

static int memprof_take_options(stint_memprof_options *options, const stint_memprof_options *given)
{
    if (given == NULL)
        return EINVAL;
    int error = sti_sized_in(options, sizeof *options, STI_SIZED_UP_TO(stint_memprof_options, seed), given);
    return error != 0 || is_valid(options) ? error : EINVAL;
}

int stint_memprof_start(const stint_memprof_options *options)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_memprof_options taken;
    int error = memprof_take_options(&taken, options);
    if (error == 0)
        error = sti_backend_check(); /* first here, as a thread's first record may be made within an allocation */
    if (error == 0)
        sti_assumptions_before_unwinding(); /* what the loader allocates for it is not the program's */
    if (error == 0)
        error = sti_tracked_prepare();
    if (error != 0)
        return error;
    if (!change_from(IDLE))
        return EBUSY;
    sti_memprof_settings.options = taken;
    sti_memprof_settings.interval = taken.interval != 0 ? (double)taken.interval : WORD / taken.rate;
    atomic_store_explicit(&sti_memprof_settings.joined, 0, memory_order_relaxed);
    if (taken.seed == 0)
        sti_memprof_settings.options.seed = sti_clock_now();
    sti_free_follow(sti_memprof_free, true);
    /* The number first, then the requests for samples: thread.h. */
    atomic_store_explicit(&sti_sampling_profile, ++profiles, memory_order_seq_cst);
    sti_thread_request_samples();
    sti_memprof_count_thread();
    sti_backend_on_heartbeat(sti_memprof_heartbeat);
    change_to(RUNNING);
    return 0;
}

/* Empty the set. False: it was empty. A block that realloc moves is outside of the set meanwhile, and may come back to
 * it. */
static bool followed_end_all(void)
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
    if (sti_process_is_partial())
        return ENOTSUP;
    if (sti_memprof_is_calling())
        return EDEADLK;
    if (!change_from(RUNNING))
        return atomic_load_explicit(&state, memory_order_relaxed) == CHANGING ? EBUSY : EINVAL;
    stint_mask();
    sti_backend_on_heartbeat(NULL);
    atomic_store_explicit(&sti_sampling_profile, 0, memory_order_seq_cst);
    do
        await_users();
    while (followed_end_all());
    await_users();
    sti_free_follow(sti_memprof_free, false);
    sti_thread_request_samples();
    change_to(IDLE);
    stint_unmask();
    return 0;
}

/* Where nobody ever has followed a block nothing is to be emptied. */
STI_FORK_HANDLER void sti_memprof_in_child(void)
{
    if (sti_process_is_partial())
        return;
    uint64_t own_use = sti_memprof_is_calling() ? 1 : 0;
    STI_SET_IN_CHILD(state, IDLE);
    STI_SET_IN_CHILD(users, own_use);
    if (!sti_free_follow_none())
        return;
    atomic_store_explicit(&sti_sampling_profile, 0, memory_order_relaxed);
    sti_backend_on_heartbeat(NULL);
    sti_tracked_forget_all();
    sti_rate_forget_all();
}

/* --- Calls of the user's tracker. Calling thread.
 *
 * In a callback the allocation functions see no record: what it allocates is not sampled, not charged, and comes from
 * the process's heap. The scope is masked, so nothing leaves the callback but its return. What it frees may be
 * followed, and is taken out of the set at once; only the call waits, so that a tracker may hold a lock of its own
 * while it frees. */

static _Thread_local struct {
    bool inside;
    struct sti_tracked *waiting; /* for their dealloc */
} calling;

bool sti_memprof_is_calling(void)
{
    return calling.inside;
}

struct sti_memprof_pause sti_memprof_pause_begin(void)
{
    struct sti_memprof_pause pause = {
        .counted = sti_thread_counted,
        .masked = sti_thread_metered != NULL ? sti_thread_metered->scope : NULL,
        .saved_errno = errno,
    };
    sti_memprof_hold();
    if (pause.masked != NULL)
        pause.masked->masks++;
    sti_thread_counted = NULL;
    calling.inside = true;
    return pause;
}

/* The callbacks return their result through the second argument: a callback that is left by an exception or a jump has
 * made nothing. */
static int make_metadata(void *allocation, void *metadata, void *unused)
{
    (void)unused;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    *(void **)metadata = options->tracker.alloc(allocation, options->arg);
    return 0;
}

static int promote_metadata(void *before, void *metadata, void *unused)
{
    (void)unused;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    *(void **)metadata = options->tracker.promote(before, options->arg);
    return 0;
}

static int drop_metadata(void *tracked, void *unused, void *neither)
{
    (void)unused;
    (void)neither;
    const struct sti_tracked *entry = tracked;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    options->tracker.dealloc(entry->metadata, entry->end, options->arg);
    return 0;
}

static void followed_dealloc(struct sti_tracked *entry)
{
    if (entry->metadata != NULL && sti_memprof_settings.options.tracker.dealloc != NULL)
        sti_boundary_callback(entry, NULL, NULL, drop_metadata);
    sti_process_free(entry);
}

void sti_memprof_pause_end(const struct sti_memprof_pause *pause)
{
    while (calling.waiting != NULL) {
        struct sti_tracked *entry = calling.waiting;
        calling.waiting = entry->next;
        followed_dealloc(entry);
    }
    calling.inside = false;
    sti_thread_counted = pause->counted;
    if (pause->masked != NULL)
        pause->masked->masks--;
    sti_memprof_leave();
    errno = pause->saved_errno;
}

void *sti_memprof_call_alloc(const stint_memprof_allocation *allocation)
{
    struct sti_memprof_pause pause = sti_memprof_pause_begin();
    void *metadata = NULL;
    sti_boundary_callback((void *)(uintptr_t)allocation, &metadata, NULL, make_metadata);
    sti_memprof_pause_end(&pause);
    return metadata;
}

void *sti_memprof_call_promote(void *metadata)
{
    if (sti_memprof_settings.options.tracker.promote == NULL)
        return metadata;
    struct sti_memprof_pause pause = sti_memprof_pause_begin();
    void *promoted = metadata;
    sti_boundary_callback(metadata, &promoted, NULL, promote_metadata);
    sti_memprof_pause_end(&pause);
    return promoted;
}

void sti_memprof_call_dealloc(struct sti_tracked *entry)
{
    if (calling.inside) {
        entry->next = calling.waiting;
        calling.waiting = entry;
        return;
    }
    struct sti_memprof_pause pause = sti_memprof_pause_begin();
    followed_dealloc(entry);
    sti_memprof_pause_end(&pause);
}

/* --- What becomes of the followed blocks of a task's heap when that ends. Thread of the heap only.
 *
 * Each thread has a log of the blocks in its heaps that were sampled: to find those of a heap, nobody walks it. A block
 * that has been freed stays in the log; it is told by the set, which has none of its number any more. So a free, which
 * comes from any thread, need not touch the log. When it is full, those are dropped. */

#define FIRST_CAPACITY 64

struct sti_tracked_log {
    size_t capacity;
    struct logged {
        uintptr_t block;
        uint64_t number;
        const sti_backend_heap *heap;
        const struct sti_rate *rate; /* NULL: the profile's */
    } blocks[];
};

static void drop_freed(struct sti_sampling *sampling)
{
    struct logged *blocks = sampling->log->blocks;
    size_t kept = 0;
    for (size_t i = 0; i < sampling->logged; i++) {
        if (sti_tracked_has(blocks[i].block, blocks[i].number))
            blocks[kept++] = blocks[i];
    }
    sampling->logged = kept;
}

bool sti_memprof_reserve_log(struct sti_sampling *sampling)
{
    struct sti_tracked_log *log = sampling->log;
    size_t capacity = log != NULL ? log->capacity : 0;
    if (sampling->logged < capacity)
        return true;
    if (log != NULL)
        drop_freed(sampling);
    if (sampling->logged < capacity / 2)
        return true;
    size_t larger = capacity == 0 ? FIRST_CAPACITY : capacity * 2;
    log = sti_process_lasting_realloc(log, sizeof *log + larger * sizeof log->blocks[0]);
    if (log == NULL)
        return sampling->logged < capacity;
    log->capacity = larger;
    sampling->log = log;
    return true;
}

void sti_memprof_log(struct sti_sampling *sampling, const struct sti_tracked *entry, const sti_backend_heap *heap)
{
    sampling->log->blocks[sampling->logged++] =
        (struct logged){ .block = entry->block, .number = entry->number, .heap = heap, .rate = entry->rate };
}

static void show_logged(const struct sti_sampling *sampling, const struct sti_rate *rate, sti_tracked_show_fn *show,
                        void *arg)
{
    for (size_t i = 0; i < sampling->logged; i++) {
        const struct logged *logged = &sampling->log->blocks[i];
        if (logged->rate == rate)
            sti_tracked_show(logged->block, logged->number, show, arg);
    }
}

/* The profile's options stay while it has a user. */
bool sti_memprof_show(const struct sti_scope *scope, double *interval, sti_tracked_show_fn *show, void *arg)
{
    const struct sti_sampling *sampling = &scope->thread->sampling;
    const struct sti_rate *rate = sti_rate_around(scope->thread, scope);
    if (rate == NULL && (sampling->profile == 0 || !sti_memprof_enter(sampling->profile)))
        return false;
    bool is_shown = rate != NULL || sti_memprof_settings.options.tracker.alloc == sti_gathered_tracker.alloc;
    *interval = rate != NULL ? sti_rate_interval(rate) : sti_memprof_settings.interval;
    if (is_shown)
        show_logged(sampling, rate, show, arg);
    if (rate == NULL)
        sti_memprof_leave();
    return is_shown;
}

static bool heap_is_on(const struct sti_heap *list, const sti_backend_heap *heap)
{
    while (list != NULL && list->backend != heap)
        list = list->next;
    return list != NULL;
}

static void followed_promote(const struct logged *logged)
{
    struct sti_tracked *entry = sti_tracked_begin_promotion(logged->block, logged->number);
    if (entry != NULL && sti_tracked_end_promotion(entry, sti_memprof_call_promote(entry->metadata)))
        sti_memprof_call_dealloc(entry);
}

void sti_memprof_end_block(const void *block, stint_memprof_end end)
{
    int saved_errno = errno;
    sti_memprof_hold();
    struct sti_tracked *entry = sti_tracked_take((uintptr_t)block, end);
    if (entry != NULL)
        sti_memprof_call_dealloc(entry);
    sti_memprof_leave();
    sti_process_free(sti_tracked_take_rated((uintptr_t)block));
    errno = saved_errno;
}

void sti_memprof_end_single(const void *block)
{
    sti_memprof_end_block(block, STINT_MEMPROF_ROLLED_BACK);
}

static void end_rolled_back(const struct logged *logged)
{
    struct sti_tracked *entry = sti_tracked_take_numbered(logged->block, logged->number, STINT_MEMPROF_ROLLED_BACK);
    if (entry != NULL)
        sti_memprof_call_dealloc(entry);
}

static void end_rated(const struct logged *logged)
{
    sti_process_free(sti_tracked_take_numbered(logged->block, logged->number, STINT_MEMPROF_FREED));
}

void sti_memprof_drop_logged(struct sti_sampling *sampling, const struct sti_rate *rate)
{
    struct logged *blocks = sampling->logged > 0 ? sampling->log->blocks : NULL;
    size_t kept = 0;
    for (size_t i = 0; i < sampling->logged; i++) {
        const struct logged logged = blocks[i];
        if (logged.rate == rate)
            end_rated(&logged);
        else
            blocks[kept++] = logged;
    }
    sampling->logged = kept;
}

void sti_memprof_end_logged(struct sti_thread *thread, const struct sti_heap *list, bool committed)
{
    struct sti_sampling *sampling = &thread->sampling;
    struct logged *blocks = sampling->log->blocks;
    size_t kept = 0;
    sti_memprof_hold();
    for (size_t i = 0; i < sampling->logged; i++) {
        const struct logged logged = blocks[i];
        if (!heap_is_on(list, logged.heap))
            blocks[kept++] = logged;
        else if (logged.rate != NULL)
            end_rated(&logged);
        else if (committed)
            followed_promote(&logged);
        else
            end_rolled_back(&logged);
    }
    sampling->logged = kept;
    sti_memprof_leave();
}

void sti_memprof_end_thread(struct sti_sampling *sampling)
{
    sti_process_free(sampling->log);
    sti_process_free(sampling->callstack);
    sampling->log = NULL;
    sampling->logged = 0;
    sampling->callstack = NULL;
    sampling->depth = 0;
    sampling->outside = NULL;
    sampling->profile = 0; /* the next one joins anew */
    sampling->interval = 0;
    sampling->next = UINT64_MAX;
}
