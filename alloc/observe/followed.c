/* SPDX-License-Identifier: MIT
 *
 * The set of the blocks that are followed, and the samples of a task with a rate of its own; see followed.h. */
#include "followed.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/task.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/heap/free.h"
#include "alloc/meter/meter.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "gathered.h"
#include "memprof.h"
#include "sample.h"

/* --- The set. Any thread. Nothing is called with a lock held. --- */

#define LOCKS 64
#define SPINS 100

struct spin_lock {
    _Alignas(64) atomic_bool taken;
};

/* Mapped before the first block is followed, for good. */
struct set {
    struct spin_lock locks[LOCKS];
    _Atomic uint8_t marks[STI_SAMPLING_MARKS];
    struct sti_tracked *lists[STI_SAMPLING_LISTS];
};

static struct set *_Atomic mapped;

static struct set *map_set(void)
{
    long pages = syscall(SYS_mmap, NULL, sizeof(struct set), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, (off_t)0);
    return pages != -1 ? (struct set *)pages : NULL;
}

int sti_tracked_prepare(void)
{
    struct set *set = NULL;
    if (atomic_load_explicit(&sti_sampling_marks, memory_order_acquire) != NULL)
        return 0;
    struct set *fresh = map_set();
    if (fresh == NULL)
        return ENOMEM;
    if (atomic_compare_exchange_strong_explicit(&mapped, &set, fresh, memory_order_acq_rel, memory_order_acquire))
        set = fresh;
    else
        syscall(SYS_munmap, fresh, sizeof *fresh);
    atomic_store_explicit(&sti_sampling_marks, set->marks, memory_order_release);
    return 0;
}

static struct set *the_set(void)
{
    return atomic_load_explicit(&mapped, memory_order_relaxed);
}

static size_t followed_list(uintptr_t block)
{
    return block >> 10 & (STI_SAMPLING_LISTS - 1);
}

static struct spin_lock *followed_lock(size_t list)
{
    struct spin_lock *taken = &the_set()->locks[list % LOCKS];
    int spins = 0;
    while (atomic_exchange_explicit(&taken->taken, true, memory_order_acquire)) {
        if (++spins > SPINS)
            sched_yield();
    }
    return taken;
}

static void followed_unlock(struct spin_lock *taken)
{
    atomic_store_explicit(&taken->taken, false, memory_order_release);
}

/* The one with this number; 0: the block's of the profile's, or of a rate's. */
struct wanted {
    uintptr_t block;
    uint64_t number;
    bool is_rated;
};

static bool followed_is_wanted(const struct sti_tracked *entry, const struct wanted *wanted)
{
    if (wanted->number != 0)
        return entry->number == wanted->number;
    return entry->block == wanted->block && (entry->rate != NULL) == wanted->is_rated;
}

/* Find the link to the entry, or to the end of the list. The caller has the list's lock. */
static struct sti_tracked **followed_find(size_t list, const struct wanted *wanted)
{
    struct sti_tracked **link = &the_set()->lists[list];
    while (*link != NULL && !followed_is_wanted(*link, wanted))
        link = &(*link)->next;
    return link;
}

static struct sti_tracked **find_numbered(size_t list, uint64_t number)
{
    return followed_find(list, &(struct wanted){ .number = number });
}

/* Set or clear the mark after a change of the list. The caller has the list's lock. */
static void set_mark(size_t list, uintptr_t block)
{
    size_t mark = sti_sampling_mark(block);
    const struct sti_tracked *entry = the_set()->lists[list];
    while (entry != NULL && sti_sampling_mark(entry->block) != mark)
        entry = entry->next;
    atomic_store_explicit(&the_set()->marks[mark], entry != NULL, memory_order_relaxed);
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

static struct sti_tracked *followed_take(struct wanted wanted, stint_memprof_end end)
{
    size_t list = followed_list(wanted.block);
    struct spin_lock *taken = followed_lock(list);
    struct sti_tracked **link = followed_find(list, &wanted);
    struct sti_tracked *entry = *link != NULL ? unlink_entry(list, link, end) : NULL;
    followed_unlock(taken);
    return entry;
}

struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end)
{
    return followed_take((struct wanted){ .block = block }, end);
}

struct sti_tracked *sti_tracked_take_numbered(uintptr_t block, uint64_t number, stint_memprof_end end)
{
    return followed_take((struct wanted){ .block = block, .number = number }, end);
}

struct sti_tracked *sti_tracked_take_rated(uintptr_t block)
{
    return followed_take((struct wanted){ .block = block, .is_rated = true }, STINT_MEMPROF_FREED);
}

uint64_t sti_tracked_new_number(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, uint64_t number)
{
    size_t list = followed_list(block);
    struct spin_lock *taken = followed_lock(list);
    struct sti_tracked *entry = *find_numbered(list, number);
    if (entry != NULL)
        entry->promoting = true;
    followed_unlock(taken);
    return entry;
}

bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata)
{
    size_t list = followed_list(entry->block);
    struct spin_lock *taken = followed_lock(list);
    entry->promoting = false;
    entry->metadata = metadata;
    if (metadata == NULL && !entry->gone)
        unlink_entry(list, find_numbered(list, entry->number), STINT_MEMPROF_FREED);
    bool gone = entry->gone;
    followed_unlock(taken);
    return gone;
}

bool sti_tracked_has(uintptr_t block, uint64_t number)
{
    size_t list = followed_list(block);
    struct spin_lock *taken = followed_lock(list);
    bool found = *find_numbered(list, number) != NULL;
    followed_unlock(taken);
    return found;
}

void sti_tracked_show(uintptr_t block, uint64_t number, sti_tracked_show_fn *show, void *arg)
{
    struct spin_lock *taken = followed_lock(followed_list(block));
    const struct sti_tracked *entry = *find_numbered(followed_list(block), number);
    if (entry != NULL && entry->metadata != NULL)
        show(block, entry->metadata, arg);
    followed_unlock(taken);
}

void sti_tracked_add(struct sti_tracked *entry)
{
    size_t list = followed_list(entry->block);
    struct spin_lock *taken = followed_lock(list);
    entry->gone = false;
    entry->next = the_set()->lists[list];
    the_set()->lists[list] = entry;
    set_mark(list, entry->block);
    followed_unlock(taken);
}

/* Onto the chain. With the list's lock. */
static struct sti_tracked *take_all_of(size_t list, stint_memprof_end end, struct sti_tracked *chain)
{
    struct sti_tracked **link = &the_set()->lists[list];
    while (*link != NULL) {
        if ((*link)->rate != NULL) {
            link = &(*link)->next;
            continue;
        }
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
        struct spin_lock *taken = followed_lock(first);
        for (size_t list = first; list < STI_SAMPLING_LISTS; list += LOCKS)
            chain = take_all_of(list, end, chain);
        followed_unlock(taken);
    }
    return chain;
}

void sti_tracked_forget_all(void)
{
    struct set *set = the_set();
    if (set != NULL && madvise(set, sizeof *set, MADV_DONTNEED) != 0)
        memset(set, 0, sizeof *set);
}

/* --- Samples of one task alone. --- */

#define WORD 8
#define LONGEST_INTERVAL 0x1p62
#define DEPTH 64
#define CHAINS 256

struct sti_rate {
    struct sti_rate *below; /* of a scope of the same thread's */
    const struct sti_scope *scope;
    bool is_over;                  /* it is the child of a fork(2) */
    struct sti_gathered *gathered; /* callstacks, without what was allocated there */
};

/* --- Which one is in force. --- */

static struct sti_rate *rate_of(const struct sti_thread *thread, const struct sti_scope *scope)
{
    struct sti_rate *rate = thread->sampling.rates;
    while (rate != NULL && rate->scope != scope)
        rate = rate->below;
    return rate;
}

struct sti_rate *sti_rate_around(const struct sti_thread *thread, const struct sti_scope *scope)
{
    struct sti_rate *rate = NULL;
    for (; scope != NULL && rate == NULL; scope = scope->outer)
        rate = rate_of(thread, scope);
    return rate != NULL && !rate->is_over ? rate : NULL;
}

static bool wants_rate(const struct sti_scope *scope)
{
    return scope->request->options->sample_rate > 0 && sti_reporting_level(scope) == STINT_REPORT_HEAP;
}

static struct sti_rate *make_rate(const struct sti_scope *scope)
{
    struct sti_rate *rate = sti_process_lasting_calloc(1, sizeof *rate);
    if (rate == NULL)
        return NULL;
    double interval = WORD / scope->request->options->sample_rate;
    rate->gathered = sti_gathered_create(interval < LONGEST_INTERVAL ? interval : LONGEST_INTERVAL, CHAINS);
    if (rate->gathered == NULL) {
        sti_process_free(rate);
        return NULL;
    }
    rate->scope = scope;
    rate->below = scope->thread->sampling.rates;
    return rate;
}

void sti_rate_begin_scope(const struct sti_scope *scope)
{
    struct sti_thread *thread = scope->thread;
    struct sti_rate *rate = sti_rate_around(thread, scope->outer);
    if (rate == NULL && wants_rate(scope) && sti_tracked_prepare() == 0 && (rate = make_rate(scope)) != NULL) {
        thread->sampling.rates = rate;
        sti_free_follow(sti_memprof_free, true);
    }
    sti_memprof_set_rate(thread, rate);
}

static void end_rate(struct sti_thread *thread, struct sti_rate *rate)
{
    struct sti_rate **link = &thread->sampling.rates;
    while (*link != rate)
        link = &(*link)->below;
    *link = rate->below;
    sti_memprof_drop_logged(&thread->sampling, rate);
    if (!rate->is_over)
        sti_free_follow(sti_memprof_free, false);
    sti_gathered_free(rate->gathered);
    sti_process_free(rate);
}

void sti_rate_end_scope(const struct sti_scope *scope)
{
    struct sti_thread *thread = scope->thread;
    struct sti_rate *rate = rate_of(thread, scope);
    sti_memprof_set_rate(thread, sti_rate_around(thread, scope->below));
    if (rate != NULL)
        end_rate(thread, rate);
}

void sti_rate_forget_all(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL)
        return;
    for (struct sti_rate *rate = thread->sampling.rates; rate != NULL; rate = rate->below)
        rate->is_over = true;
    sti_memprof_set_rate(thread, NULL);
}

/* --- Its samples. --- */

double sti_rate_interval(const struct sti_rate *rate)
{
    return rate != NULL ? rate->gathered->interval : 0;
}

/* A block that is followed, with what it stands for. */
struct rated {
    struct sti_tracked tracked;
    struct sti_profile_share share;
};

static struct rated *make_rated(struct sti_thread *thread, uint64_t charged, const void *caller)
{
    const struct sti_sampling *sampling = &thread->sampling;
    void *callstack[DEPTH];
    const stint_memprof_allocation allocation = {
        .samples = sampling->rate_samples,
        .charged = charged,
        .interval = sampling->rate->gathered->interval,
        .callstack = callstack,
        .callstack_length = sti_callstack(callstack, DEPTH, caller),
    };
    struct rated *rated = sti_process_lasting_malloc(sizeof *rated);
    if (rated != NULL && sti_gathered_share(sampling->rate->gathered, &allocation, &rated->share) &&
        sti_memprof_reserve_log(&thread->sampling))
        return rated;
    sti_process_free(rated);
    return NULL;
}

void sti_rate_follow(struct sti_thread *thread, void *block, size_t size, size_t alignment, const void *caller)
{
    struct sti_sampling *sampling = &thread->sampling;
    struct rated *rated = make_rated(thread, sti_meter_rounded(size + alignment), caller);
    if (rated == NULL)
        return;
    rated->tracked = (struct sti_tracked){
        .block = (uintptr_t)block,
        .metadata = &rated->share,
        .rate = sampling->rate,
        .number = sti_tracked_new_number(),
    };
    sti_memprof_log(sampling, &rated->tracked, sti_backend_heap_of(block));
    sti_tracked_add(&rated->tracked);
}
