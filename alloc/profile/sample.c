/* SPDX-License-Identifier: MIT
 *
 * A thread's samples, and the set of the blocks that are followed; see sampling.h and sample.h. */
#include <errno.h>
#include <sched.h>

#include "alloc/base/callstack.h"
#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/allocate.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/rollback/free.h"
#include "alloc/rollback/freeing.h"
#include "alloc/scope/scope.h"
#include "memprof.h"
#include "sample.h"

/* --- A thread's samples: where the next one is, and what the tracker is told of a block that has some. Thread of the
 * record, but for the end of a block. */

#define LARGEST_CHARGE ((uint64_t)1 << 47)

static bool have_callstack(struct sti_sampling *sampling, size_t depth)
{
    if (depth <= sampling->depth)
        return true;
    void **larger = sti_process_realloc(sampling->callstack, depth * sizeof *larger);
    if (larger == NULL)
        return false;
    sampling->callstack = larger;
    sampling->depth = depth;
    return true;
}

void sti_memprof_join(struct sti_thread *thread)
{
    struct sti_sampling *sampling = &thread->sampling;
    uint64_t profile = atomic_load_explicit(&sti_sampling_profile, memory_order_seq_cst);
    sampling->next = UINT64_MAX;
    sampling->profile = profile;
    if (profile == 0 || !sti_memprof_enter(profile))
        return;
    if (have_callstack(sampling, sti_memprof_settings.options.callstack_depth)) {
        uint64_t number = atomic_fetch_add_explicit(&sti_memprof_settings.joined, 1, memory_order_relaxed);
        uint64_t seed = sti_memprof_settings.options.seed + (number << 32);
        sti_sampler_init(&sampling->random, seed, sti_memprof_settings.interval);
        sampling->next = thread->used + sti_sampler_interval(&sampling->random);
    }
    sti_memprof_leave();
}

uint64_t sti_memprof_draw(struct sti_thread *thread, uint64_t charge)
{
    struct sti_sampling *sampling = &thread->sampling;
    uint64_t to_next = sampling->next - thread->used;
    uint64_t samples = sti_sampler_count(&sampling->random, &to_next, charge);
    sampling->next = thread->used + charge + to_next;
    return sti_memprof_is_calling() ? 0 : samples;
}

void sti_memprof_draw_again(struct sti_thread *thread)
{
    struct sti_sampling *sampling = &thread->sampling;
    sampling->next = thread->used + sti_sampler_interval(&sampling->random);
}

void sti_memprof_count_thread(void)
{
    if (sti_thread_counted != NULL || sti_memprof_is_calling())
        return;
    struct sti_thread *thread = sti_thread_self_if_settled();
    if (thread == NULL || thread->scope != NULL)
        return;
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    thread->sampling.outside = thread;
    sti_thread_counted = thread;
}

/* Forced ones come when a thread ends, and another as it begins: while mimalloc has a lock that it takes to make a
 * record. */
void sti_memprof_heartbeat(bool force, unsigned long long count, void *unused)
{
    (void)count;
    (void)unused;
    if (!force && sti_thread_is_known())
        sti_memprof_count_thread();
}

void sti_memprof_meter_outside(struct sti_thread *thread, uint64_t charge)
{
    if (!sti_sampling_is_joined(&thread->sampling))
        sti_memprof_join(thread);
    if (thread->sampling.profile == 0) {
        thread->sampling.outside = NULL;
        sti_thread_counted = NULL;
    }
    uint64_t samples = 0;
    if (charge > LARGEST_CHARGE)
        charge = 0;
    else if (thread->used + charge > thread->sampling.next)
        samples = sti_memprof_draw(thread, charge);
    thread->used += charge;
    thread->sampling.samples = samples;
}

static void describe_task(stint_memprof_allocation *allocation, const struct sti_scope *scope)
{
    for (; scope != NULL; scope = scope->outer) {
        if (allocation->task == NULL)
            allocation->task = scope->request->options->name;
        if (allocation->account == NULL)
            allocation->account = scope->account;
    }
}

static stint_memprof_source source_of(bool in_task_heap, size_t alignment, const void *caller)
{
    if (sti_caller_is_system(caller))
        return STINT_MEMPROF_FOREIGN;
    if (alignment > 0)
        return STINT_MEMPROF_ALIGNED;
    return in_task_heap ? STINT_MEMPROF_TASK_HEAP : STINT_MEMPROF_PROCESS_HEAP;
}

/* The block's memory was given back in a way that this library does not see. */
static void end_stale(const void *block)
{
    if (!sti_sampling_may_follow(block))
        return;
    struct sti_tracked *stale = sti_tracked_take((uintptr_t)block, STINT_MEMPROF_FREED);
    if (stale != NULL)
        sti_memprof_call_dealloc(stale);
}

/* The thread is a user of the profile. */
static void tell(struct sti_thread *thread, void *block, const stint_memprof_allocation *allocation)
{
    sti_backend_heap *heap = allocation->in_task_heap ? sti_backend_heap_of(block) : NULL;
    struct sti_tracked *entry = sti_process_malloc(sizeof *entry);
    if (entry == NULL)
        return;
    if (heap != NULL && !sti_memprof_reserve_log(&thread->sampling)) {
        sti_process_free(entry);
        return;
    }
    end_stale(block);
    void *metadata = sti_memprof_call_alloc(allocation);
    if (metadata == NULL || metadata == STINT_MEMPROF_INTERRUPT) {
        sti_process_free(entry);
        if (metadata != NULL && sti_thread_metered != NULL) {
            sti_interrupt_trip(thread->scope, STINT_REASON_TRACKER);
            atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
        }
        return;
    }
    *entry = (struct sti_tracked){ .block = (uintptr_t)block, .heap = heap, .metadata = metadata };
    sti_tracked_add(entry);
    if (heap != NULL)
        sti_memprof_log_block(&thread->sampling, entry->block, heap);
}

void *sti_memprof_made_sampled(struct sti_thread *thread, void *block, size_t size, size_t alignment,
                               const void *caller)
{
    struct sti_sampling *sampling = &thread->sampling;
    uint64_t samples = sampling->samples;
    sampling->samples = 0;
    if (block == NULL || !sti_memprof_enter(sampling->profile))
        return block;
    bool in_scope = sti_thread_metered != NULL;
    bool in_task_heap = in_scope && sti_meter_source(thread, caller) == STI_SOURCE_TASK;
    int saved_errno = errno;
    stint_memprof_allocation allocation = {
        .samples = samples,
        .size = size,
        .charged = sti_meter_rounded(size + alignment),
        .interval = sti_memprof_settings.interval,
        .source = source_of(in_task_heap, alignment, caller),
        .in_task_heap = in_task_heap,
        .callstack = sampling->callstack,
        .callstack_length = sti_callstack(sampling->callstack, sti_memprof_settings.options.callstack_depth, caller),
    };
    if (in_scope)
        describe_task(&allocation, thread->scope);
    tell(thread, block, &allocation);
    sti_memprof_leave();
    errno = saved_errno;
    return block;
}

/* Out of line, so that sti_memprof_free is short. */
static __attribute__((noinline)) void end_freed(void *block)
{
    int saved_errno = errno;
    sti_memprof_hold();
    struct sti_tracked *entry = sti_tracked_take((uintptr_t)block, STINT_MEMPROF_FREED);
    if (entry != NULL)
        sti_memprof_call_dealloc(entry);
    sti_memprof_leave();
    errno = saved_errno;
}

void sti_memprof_free(void *block)
{
    if (__builtin_expect(sti_thread_counted == NULL, 0) && block != NULL && sti_thread_is_known())
        sti_memprof_count_thread();
    if (sti_sampling_may_follow(block))
        end_freed(block);
    sti_free_last(block);
}

static void *resize(struct sti_thread *thread, void *block, size_t size, const void *caller)
{
    struct sti_freer *freer = sti_free_is_told() ? sti_freeing_enter() : NULL;
    void *moved = thread != NULL && sti_meter_source(thread, caller) == STI_SOURCE_TASK
                      ? sti_allocate_moved(thread, block, size)
                      : sti_backend_realloc(block, size);
    sti_freeing_leave(freer);
    return moved;
}

/* The block is out of the set while it moves: as soon as its memory is free, another thread's block may be there. */
static void *move(struct sti_thread *thread, void *block, size_t size, const void *caller)
{
    sti_memprof_hold();
    struct sti_tracked *entry = sti_tracked_take((uintptr_t)block, STINT_MEMPROF_FREED);
    void *moved = resize(thread, block, size, caller);
    if (entry != NULL && (moved == NULL || moved == block)) {
        sti_tracked_add(entry);
    } else if (entry != NULL) {
        sti_memprof_call_dealloc(entry);
    }
    sti_memprof_leave();
    return moved;
}

void *sti_memprof_reallocate(struct sti_thread *thread, void *block, size_t size, const void *caller)
{
    if (block != NULL && sti_allocate_fits(block, size))
        return block;
    if (thread == NULL)
        return move(thread, block, size, caller);
    if (!sti_meter_charge(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    return sti_sampling_made(thread, move(thread, block, size, caller), size, 0, caller);
}

/* --- The set of sampled blocks. Any thread. Nothing is called with a lock held. --- */

#define LOCKS 64
#define SPINS 100

static struct sti_tracked *lists[STI_SAMPLING_LISTS];

static struct spin_lock {
    _Alignas(64) atomic_bool taken;
} locks[LOCKS];

static size_t list_of(uintptr_t block)
{
    return block >> 10 & (STI_SAMPLING_LISTS - 1);
}

static struct spin_lock *lock(size_t list)
{
    struct spin_lock *taken = &locks[list % LOCKS];
    int spins = 0;
    while (atomic_exchange_explicit(&taken->taken, true, memory_order_acquire)) {
        if (++spins > SPINS)
            sched_yield();
    }
    return taken;
}

static void unlock(struct spin_lock *taken)
{
    atomic_store_explicit(&taken->taken, false, memory_order_release);
}

/* With the list's lock: the link to the block's entry, or to the end of the list. */
static struct sti_tracked **link_to(size_t list, uintptr_t block)
{
    struct sti_tracked **link = &lists[list];
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    return link;
}

/* With the list's lock: after a change. */
static void set_mark(size_t list, uintptr_t block)
{
    size_t mark = sti_sampling_mark(block);
    const struct sti_tracked *entry = lists[list];
    while (entry != NULL && sti_sampling_mark(entry->block) != mark)
        entry = entry->next;
    atomic_store_explicit(&sti_sampling_marks[mark], entry != NULL, memory_order_relaxed);
}

static struct sti_tracked *unlink_entry(size_t list, struct sti_tracked **link, stint_memprof_end end)
{
    struct sti_tracked *entry = *link;
    *link = entry->next;
    entry->end = end;
    entry->gone = true;
    set_mark(list, entry->block);
    return entry->promoting ? NULL : entry;
}

struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = link_to(list, block);
    struct sti_tracked *entry = *link != NULL ? unlink_entry(list, link, end) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, stint_memprof_end end)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked **link = link_to(list, block);
    bool found = *link != NULL && (*link)->heap == heap;
    struct sti_tracked *entry = found ? unlink_entry(list, link, end) : NULL;
    unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, const sti_backend_heap *heap)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    struct sti_tracked *entry = *link_to(list, block);
    if (entry != NULL && entry->heap == heap) {
        entry->heap = NULL;
        entry->promoting = true;
    } else {
        entry = NULL;
    }
    unlock(taken);
    return entry;
}

bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata)
{
    size_t list = list_of(entry->block);
    struct spin_lock *taken = lock(list);
    entry->promoting = false;
    entry->metadata = metadata;
    if (metadata == NULL && !entry->gone)
        unlink_entry(list, link_to(list, entry->block), STINT_MEMPROF_FREED);
    bool gone = entry->gone;
    unlock(taken);
    return gone;
}

bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap)
{
    size_t list = list_of(block);
    struct spin_lock *taken = lock(list);
    const struct sti_tracked *entry = *link_to(list, block);
    bool found = entry != NULL && entry->heap == heap;
    unlock(taken);
    return found;
}

void sti_tracked_show(uintptr_t block, const sti_backend_heap *heap, sti_tracked_show_fn *show, void *arg)
{
    struct spin_lock *taken = lock(list_of(block));
    const struct sti_tracked *entry = *link_to(list_of(block), block);
    if (entry != NULL && entry->heap == heap && entry->metadata != NULL)
        show(block, entry->metadata, arg);
    unlock(taken);
}

void sti_tracked_add(struct sti_tracked *entry)
{
    size_t list = list_of(entry->block);
    struct spin_lock *taken = lock(list);
    entry->gone = false;
    entry->next = lists[list];
    lists[list] = entry;
    set_mark(list, entry->block);
    unlock(taken);
}

/* Onto the chain. With the list's lock. */
static struct sti_tracked *take_all_of(size_t list, stint_memprof_end end, struct sti_tracked *chain)
{
    struct sti_tracked **link = &lists[list];
    while (*link != NULL) {
        struct sti_tracked *entry = unlink_entry(list, link, end);
        if (entry == NULL)
            continue;
        entry->next = chain;
        chain = entry;
    }
    return chain;
}

struct sti_tracked *sti_tracked_take_all(stint_memprof_end end)
{
    struct sti_tracked *chain = NULL;
    for (size_t first = 0; first < LOCKS; first++) {
        struct spin_lock *taken = lock(first);
        for (size_t list = first; list < STI_SAMPLING_LISTS; list += LOCKS)
            chain = take_all_of(list, end, chain);
        unlock(taken);
    }
    return chain;
}

void sti_tracked_forget_all(void)
{
    for (size_t i = 0; i < LOCKS; i++)
        atomic_store_explicit(&locks[i].taken, false, memory_order_relaxed);
    for (size_t list = 0; list < STI_SAMPLING_LISTS; list++) {
        if (lists[list] != NULL)
            lists[list] = NULL;
    }
    for (size_t mark = 0; mark < STI_SAMPLING_MARKS; mark++) {
        if (atomic_load_explicit(&sti_sampling_marks[mark], memory_order_relaxed) != 0)
            atomic_store_explicit(&sti_sampling_marks[mark], 0, memory_order_relaxed);
    }
}
