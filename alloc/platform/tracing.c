/* SPDX-License-Identifier: MIT
 *
 * The writer's half of a trace: the protocol is in tracing.h. The calling thread's ring. */
#include "tracing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "clock.h"
#include "module.h"
#include "process.h"
#include "scope_state.h"
#include "thread.h"

atomic_uint sti_scopes_observed;
atomic_uint sti_tasks_observed;
atomic_uint sti_trace_epoch;
_Atomic uint64_t sti_trace_homeless;
_Thread_local struct sti_trace_submitters sti_trace_submitters;

/* --- One record. -------------------------------------------------------------------------------------------------- */

static void record_lose(struct sti_trace_ring *ring)
{
    if (ring != NULL)
        sti_counter_add_own(&ring->lost);
    else
        atomic_fetch_add_explicit(&sti_trace_homeless, 1, memory_order_relaxed);
}

static __attribute__((noinline)) struct sti_trace_ring *make_ring(struct sti_thread *thread)
{
    struct sti_trace_ring *ring = sti_process_lasting_aligned(_Alignof(struct sti_trace_ring), sizeof *ring);
    if (ring == NULL)
        return NULL;
    memset(ring, 0, offsetof(struct sti_trace_ring, records));
    ring->full_at = UINT64_MAX;
    atomic_store_explicit(&thread->trace, ring, memory_order_release);
    return ring;
}

/* NULL: it has none. */
static struct sti_trace_ring *trace_ring_of_thread(struct sti_thread *thread, bool may_make)
{
    struct sti_trace_ring *ring = thread != NULL ? atomic_load_explicit(&thread->trace, memory_order_relaxed) : NULL;
    return ring == NULL && thread != NULL && may_make ? make_ring(thread) : ring;
}

static bool trace_ring_has_room(struct sti_trace_ring *ring, uint64_t head, unsigned needed)
{
    if (head + needed - ring->known_tail <= STI_TRACE_RECORDS)
        return true;
    ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head + needed - ring->known_tail <= STI_TRACE_RECORDS;
}

static struct sti_trace_record *trace_ring_at(struct sti_trace_ring *ring, uint64_t index)
{
    return &ring->records[index % STI_TRACE_RECORDS];
}

static void trace_ring_publish(struct sti_trace_ring *ring, uint64_t head)
{
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* The thread's first record of the trace. */
static __attribute__((noinline)) bool trace_ring_begin(struct sti_trace_ring *ring, const struct sti_thread *thread,
                                                       unsigned epoch, unsigned needed)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (!trace_ring_has_room(ring, head, 1 + needed))
        return false;
    struct sti_trace_record *record = trace_ring_at(ring, head);
    record->ns = 0; /* before what follows */
    record->mark = STI_TRACE_THREAD;
    record->number = thread->id;
    record->number_of = epoch;
    memset(record->name, 0, sizeof record->name);
    prctl(PR_GET_NAME, record->name);
    trace_ring_publish(ring, head);
    ring->epoch = epoch;
    ring->id = thread->id;
    ring->open = 0;
    ring->full_at = UINT64_MAX;
    return true;
}

static void trace_ring_release(struct sti_trace_ring *ring)
{
    atomic_signal_fence(memory_order_release);
    ring->writing = false;
}

/* Whether the ring is the thread's in the trace that runs. */
static inline bool is_begun(const struct sti_trace_ring *ring, const struct sti_thread *thread, unsigned epoch)
{
    return ring->epoch == epoch && epoch != 0 && ring->id == thread->id;
}

/* The thread's ring, to be written to up to release, with room for so many records beside the ends of what is open.
 * NULL: there is none, and the record is lost. */
static inline __attribute__((always_inline)) struct sti_trace_ring *trace_ring_acquire(struct sti_thread *thread,
                                                                                       bool may_make, unsigned needed)
{
    unsigned epoch = atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed);
    if (epoch == 0)
        return NULL;
    struct sti_trace_ring *ring = trace_ring_of_thread(thread, may_make);
    if (ring == NULL || ring->writing) {
        record_lose(ring);
        return NULL;
    }
    ring->writing = true; /* before its room is looked at: a handler may take some */
    atomic_signal_fence(memory_order_seq_cst);
    if (is_begun(ring, thread, epoch) || trace_ring_begin(ring, thread, epoch, needed)) {
        if (trace_ring_has_room(ring, atomic_load_explicit(&ring->head, memory_order_relaxed), needed + ring->open))
            return ring;
        if (needed > 1)
            ring->full_at = ring->known_tail;
    }
    record_lose(ring);
    trace_ring_release(ring);
    return NULL;
}

static struct sti_trace_record *trace_ring_next(struct sti_trace_ring *ring, enum sti_trace_mark mark, uint64_t ns)
{
    struct sti_trace_record *record = trace_ring_at(ring, atomic_load_explicit(&ring->head, memory_order_relaxed));
    record->ns = ns;
    record->mark = (uint8_t)mark;
    record->number = 0;
    return record;
}

static void record_put(struct sti_trace_ring *ring)
{
    trace_ring_publish(ring, atomic_load_explicit(&ring->head, memory_order_relaxed));
    trace_ring_release(ring);
}

static struct sti_thread *tracing_self(void)
{
    struct sti_thread *thread = sti_thread_own();
    return thread != NULL ? thread : sti_thread_self_if_settled();
}

static uint64_t record_time(uint64_t ns)
{
    return ns != 0 ? ns : sti_clock_now();
}

static void record_copy_name(struct sti_trace_record *record, const char *name)
{
    size_t length = strnlen(name, sizeof record->name - 1);
    memcpy(record->name, name, length);
    record->name[length] = '\0';
}

/* --- Marks. ------------------------------------------------------------------------------------------------------- */

unsigned sti_trace_wake(uint64_t ns, uint64_t flow)
{
    struct sti_trace_ring *ring = trace_ring_acquire(tracing_self(), true, 1);
    if (ring == NULL)
        return 0;
    unsigned epoch = ring->epoch;
    trace_ring_next(ring, STI_TRACE_WAKE, ns)->flow = flow;
    record_put(ring);
    return epoch;
}

/* The thread's first submission in the trace: the thread's track has to have a name. */
__attribute__((noinline)) unsigned sti_trace_begin_submitter(unsigned epoch)
{
    struct sti_thread *thread = tracing_self();
    struct sti_trace_ring *ring = trace_ring_acquire(thread, true, 0);
    if (ring == NULL)
        return 0;
    bool is_same = ring->epoch == epoch;
    trace_ring_release(ring);
    if (!is_same)
        return 0;
    sti_trace_submitters.epoch = epoch;
    sti_trace_submitters.own = sti_trace_submitter_in(epoch) | (unsigned)thread->id;
    return sti_trace_submitters.own;
}

static void record_put_submission(struct sti_trace_record *record, const stint_options *options, uint64_t ns,
                                  unsigned submitter)
{
    record->number = (int32_t)submitter;
    record->flow = (uintptr_t)options;
    record->number_of = ns;
}

unsigned sti_trace_steal(const stint_options *options, uint64_t submitted_ns, unsigned submitter)
{
    struct sti_trace_ring *ring = trace_ring_acquire(tracing_self(), true, 1);
    if (ring == NULL)
        return submitter;
    record_put_submission(trace_ring_next(ring, STI_TRACE_STEAL, sti_clock_now()), options, submitted_ns, submitter);
    record_put(ring);
    return submitter & ~STI_TRACE_THREAD_MASK;
}

void sti_trace_interrupt(enum sti_trace_mark mark, int number)
{
    struct sti_trace_ring *ring = trace_ring_acquire(sti_thread_own(), false, 1);
    if (ring == NULL)
        return;
    trace_ring_next(ring, mark, sti_clock_now())->number = number;
    record_put(ring);
}

/* --- Slices. ------------------------------------------------------------------------------------------------------ */

/* Behind what is missing, of a slice that has room. False: not for this as well. */
static __attribute__((noinline, cold)) bool put_lost(struct sti_trace_ring *ring)
{
    if (!trace_ring_has_room(ring, atomic_load_explicit(&ring->head, memory_order_relaxed), 3 + ring->open)) {
        ring->full_at = ring->known_tail;
        return false;
    }
    struct sti_trace_record *record = trace_ring_next(ring, STI_TRACE_LOST, 0);
    record->flow = sti_counter_read(&ring->lost);
    trace_ring_publish(ring, atomic_load_explicit(&ring->head, memory_order_relaxed));
    ring->full_at = UINT64_MAX;
    return true;
}

static inline __attribute__((always_inline)) struct sti_trace_record *
open_slice(struct sti_thread *thread, enum sti_trace_mark mark, const void *key, uint64_t ns, const char *name,
           struct sti_trace_ring **ring)
{
    *ring = trace_ring_acquire(thread, true, 2);
    if (*ring == NULL)
        return NULL;
    bool is_behind = (*ring)->full_at == UINT64_MAX || put_lost(*ring);
    if (!is_behind || (*ring)->open == STI_TRACE_OPEN) {
        record_lose(*ring);
        trace_ring_release(*ring);
        return NULL;
    }
    struct sti_trace_record *record = trace_ring_next(*ring, mark, record_time(ns));
    record->depth = (uint8_t)(*ring)->open;
    (*ring)->keys[(*ring)->open++] = key;
    if (name != NULL)
        record_copy_name(record, name);
    else
        record->name[0] = '\0';
    return record;
}

/* NULL: it was never begun. Its end has room. */
static inline __attribute__((always_inline)) struct sti_trace_record *close_slice(struct sti_thread *thread,
                                                                                  enum sti_trace_mark mark,
                                                                                  const void *key, uint64_t ns,
                                                                                  struct sti_trace_ring **ring)
{
    unsigned epoch = atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed);
    *ring = trace_ring_of_thread(thread, false);
    unsigned depth = *ring != NULL ? (*ring)->open : 0;
    if (depth == 0 || !is_begun(*ring, thread, epoch) || (*ring)->writing)
        return NULL;
    while (depth > 0 && (*ring)->keys[depth - 1] != key)
        depth--;
    if (depth == 0)
        return NULL;
    (*ring)->writing = true;
    atomic_signal_fence(memory_order_seq_cst);
    (*ring)->open = depth - 1;
    struct sti_trace_record *record = trace_ring_next(*ring, mark, record_time(ns));
    record->depth = (uint8_t)(depth - 1);
    return record;
}

/* Here, where the module is sure to be loaded. */
static __attribute__((noinline)) void find_place(struct sti_trace_ring *ring, stint_fn *fn)
{
    const struct link_map *module = sti_module_of((const void *)(uintptr_t)fn);
    const char *path = module != NULL && module->l_name[0] != '\0' ? module->l_name : program_invocation_short_name;
    const char *name = strrchr(path, '/');
    snprintf(ring->place, sizeof ring->place, "%.17s+%#llx", name != NULL ? name + 1 : path,
             (unsigned long long)((uintptr_t)fn - (module != NULL ? module->l_addr : 0)));
    ring->unnamed = fn;
}

static const char *place_of(struct sti_trace_ring *ring, stint_fn *fn)
{
    if (__builtin_expect(ring->unnamed != fn, 0))
        find_place(ring, fn);
    return ring->place;
}

void sti_trace_begin_task(struct sti_thread *thread, const void *key, uint64_t ns,
                          const struct sti_scope_request *request)
{
    const stint_options *options = request->options;
    const char *name = options->name;
    struct sti_trace_ring *ring;
    struct sti_trace_record *record = open_slice(thread, STI_TRACE_BEGIN_TASK, key, ns, name, &ring);
    if (record == NULL)
        return;
    record_put_submission(record, options, request->submitted_ns, sti_trace_submitters.of_next);
    if (name == NULL || name[0] == '\0')
        memcpy(record->name, place_of(ring, request->fn), sizeof record->name); /* of one size, so without a call */
    record_put(ring);
}

void sti_trace_end_task(struct sti_thread *thread, const void *key, uint64_t ns, const stint_outcome *outcome)
{
    struct sti_trace_ring *ring;
    struct sti_trace_record *record = close_slice(thread, STI_TRACE_END_TASK, key, ns, &ring);
    if (record == NULL)
        return;
    record->reason = (uint8_t)outcome->reason;
    record->status = (uint8_t)outcome->status;
    record->number = outcome->error;
    record->allocated = outcome->usage.allocated;
    record->peak = outcome->usage.peak;
    record->bytes = outcome->usage.committed;
    record->queued = outcome->usage.queued_ns;
    record->samples = outcome->usage.samples;
    record->deferred = outcome->usage.deferred;
    record_put(ring);
}

void sti_trace_begin(enum sti_trace_mark mark, const void *key, uint64_t ns, const char *name,
                     const struct sti_thread *owner)
{
    struct sti_trace_ring *ring;
    struct sti_trace_record *record = open_slice(tracing_self(), mark, key, ns, name, &ring);
    if (record == NULL)
        return;
    record->flow = owner != NULL ? sti_trace_flow(key, record->ns) : 0;
    record->number = owner != NULL ? owner->id : 0;
    record_put(ring);
}

void sti_trace_end(enum sti_trace_mark mark, const void *key, uint64_t value, unsigned epoch)
{
    struct sti_trace_ring *ring;
    struct sti_trace_record *record = close_slice(sti_thread_own(), mark, key, 0, &ring);
    if (record == NULL)
        return;
    record->flow = epoch == STI_TRACE_ANY || epoch == ring->epoch ? value : 0;
    record_put(ring);
}
