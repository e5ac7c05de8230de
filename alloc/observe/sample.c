/* SPDX-License-Identifier: MIT
 *
 * A thread's samples; see sampling.h and sample.h. */
#include <errno.h>

#include "alloc/interrupt/interrupt.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "followed.h"
#include "memprof.h"
#include "sample.h"

/* --- A thread's samples: where the next one is, and what the tracker is told of a block that has some. Thread of the
 * record, but for the end of a block. */

#define LARGEST_CHARGE ((uint64_t)1 << 47)

static bool have_callstack(struct sti_sampling *sampling, size_t depth)
{
    if (depth <= sampling->depth)
        return true;
    void **larger = sti_process_lasting_realloc(sampling->callstack, depth * sizeof *larger);
    if (larger == NULL)
        return false;
    sampling->callstack = larger;
    sampling->depth = depth;
    return true;
}

/* The samples of the profile and of a rate are one stream, as dense as both together: each of its samples is the one's
 * or the other's by chance, and what is drawn so for each is a Poisson process of its own. Such a process has no
 * memory, so the place of the next sample may be drawn anew at any time. */
static double mean_of_both(double profile, double rate)
{
    if (profile == 0 || rate == 0)
        return profile + rate;
    return profile * rate / (profile + rate);
}

static void draw_next(struct sti_thread *thread)
{
    struct sti_sampling *sampling = &thread->sampling;
    sampling->random.mean_bytes = mean_of_both(sampling->interval, sti_rate_interval(sampling->rate));
    sampling->next =
        sampling->random.mean_bytes > 0 ? thread->used + sti_sampler_interval(&sampling->random) : UINT64_MAX;
}

void sti_memprof_set_rate(struct sti_thread *thread, struct sti_rate *rate)
{
    struct sti_sampling *sampling = &thread->sampling;
    if (sampling->rate == rate)
        return;
    sampling->rate = rate;
    if (sampling->interval == 0 && rate != NULL)
        sti_sampler_init(&sampling->random, sti_clock_now() ^ (uintptr_t)rate, sti_rate_interval(rate));
    draw_next(thread);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

void sti_memprof_join(struct sti_thread *thread)
{
    struct sti_sampling *sampling = &thread->sampling;
    uint64_t profile = atomic_load_explicit(&sti_sampling_profile, memory_order_seq_cst);
    sampling->profile = profile;
    sampling->interval = 0;
    if (profile != 0 && sti_memprof_enter(profile)) {
        if (have_callstack(sampling, sti_memprof_settings.options.callstack_depth)) {
            uint64_t number = atomic_fetch_add_explicit(&sti_memprof_settings.joined, 1, memory_order_relaxed);
            sampling->interval = sti_memprof_settings.interval;
            sti_sampler_init(&sampling->random, sti_memprof_settings.options.seed + (number << 32), sampling->interval);
        }
        sti_memprof_leave();
    }
    draw_next(thread);
}

uint64_t sti_memprof_draw(struct sti_thread *thread, uint64_t charge)
{
    struct sti_sampling *sampling = &thread->sampling;
    double rate = sti_rate_interval(sampling->rate);
    uint64_t to_next = sampling->next - thread->used;
    uint64_t samples = sti_sampler_count(&sampling->random, &to_next, charge);
    sampling->next = thread->used + charge + to_next;
    if (rate == 0 || sampling->interval == 0)
        sampling->rate_samples = rate == 0 ? 0 : samples;
    else
        sampling->rate_samples = sti_sampler_split(&sampling->random, samples, sampling->random.mean_bytes / rate);
    sampling->profile_samples = samples - sampling->rate_samples;
    return sti_memprof_is_calling() ? 0 : samples;
}

void sti_memprof_draw_again(struct sti_thread *thread)
{
    draw_next(thread);
}

void sti_memprof_count_thread(void)
{
    if (sti_thread_counted != NULL || sti_memprof_is_calling())
        return;
    if (atomic_load_explicit(&sti_sampling_profile, memory_order_relaxed) == 0)
        return; /* blocks are followed for a task's rate */
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

/* The thread is a user of the profile. */
static void sample_notify(struct sti_thread *thread, void *block, const stint_memprof_allocation *allocation)
{
    sti_backend_heap *heap = allocation->in_task_heap ? sti_backend_heap_of(block) : NULL;
    struct sti_tracked *entry = sti_process_lasting_malloc(sizeof *entry);
    if (entry == NULL)
        return;
    if (heap != NULL && !sti_memprof_reserve_log(&thread->sampling)) {
        sti_process_free(entry);
        return;
    }
    void *metadata = sti_memprof_call_alloc(allocation);
    if (metadata == NULL || metadata == STINT_MEMPROF_INTERRUPT) {
        sti_process_free(entry);
        if (metadata != NULL && sti_thread_metered != NULL) {
            sti_interrupt_trip(thread->scope, STINT_REASON_TRACKER);
            atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
        }
        return;
    }
    *entry = (struct sti_tracked){ .block = (uintptr_t)block, .metadata = metadata };
    entry->number = sti_tracked_new_number();
    if (heap != NULL)
        sti_memprof_log(&thread->sampling, entry, heap);
    sti_tracked_add(entry);
}

/* The thread is a user of the profile. */
static void notify_profile(struct sti_thread *thread, void *block, size_t size, size_t alignment, const void *caller,
                           bool in_task_heap)
{
    struct sti_sampling *sampling = &thread->sampling;
    stint_memprof_allocation allocation = {
        .samples = sampling->profile_samples,
        .size = size,
        .charged = sti_meter_rounded(size + alignment),
        .interval = sti_memprof_settings.interval,
        .source = source_of(in_task_heap, alignment, caller),
        .in_task_heap = in_task_heap,
        .callstack = sampling->callstack,
        .callstack_length = sti_callstack(sampling->callstack, sti_memprof_settings.options.callstack_depth, caller),
    };
    if (sti_thread_metered != NULL)
        describe_task(&allocation, thread->scope);
    sample_notify(thread, block, &allocation);
}

void *sti_memprof_made_sampled(struct sti_thread *thread, void *block, size_t size, size_t alignment,
                               const void *caller)
{
    struct sti_sampling *sampling = &thread->sampling;
    sampling->samples = 0;
    if (block == NULL)
        return NULL;
    bool in_task_heap = sti_thread_metered != NULL && sti_meter_source(thread, caller) == STI_SOURCE_TASK;
    int saved_errno = errno;
    if (sti_sampling_may_follow(block)) /* its memory was given back in a way that this library does not see */
        sti_memprof_end_block(block, STINT_MEMPROF_FREED);
    if (sampling->rate_samples > 0 && sampling->rate != NULL && in_task_heap)
        sti_rate_follow(thread, block, size, alignment, caller);
    if (sampling->profile_samples > 0 && sti_memprof_enter(sampling->profile)) {
        notify_profile(thread, block, size, alignment, caller, in_task_heap);
        sti_memprof_leave();
    }
    errno = saved_errno;
    return block;
}

static __attribute__((noinline)) void free_followed(void *block)
{
    sti_memprof_end_block(block, STINT_MEMPROF_FREED);
    sti_backend_free(block);
}

static __attribute__((noinline)) void free_uncounted(void *block)
{
    if (block != NULL && sti_thread_is_known())
        sti_memprof_count_thread();
    if (sti_sampling_may_follow(block))
        sti_memprof_end_block(block, STINT_MEMPROF_FREED);
    sti_backend_free(block);
}

/* Every free comes here while a profile runs, so what is rare is out of line, and called last. A thread that has read
 * which function this is (release, in free.c) sees the marks, after the fence. */
void sti_memprof_free(void *block)
{
    atomic_thread_fence(memory_order_acquire);
    const _Atomic uint8_t *marks = atomic_load_explicit(&sti_sampling_marks, memory_order_relaxed);
    if (__builtin_expect(sti_thread_counted == NULL, 0))
        free_uncounted(block);
    else if (__builtin_expect(sti_sampling_is_marked(marks, block), 0))
        free_followed(block);
    else
        sti_backend_free(block);
}
