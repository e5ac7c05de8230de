/* SPDX-License-Identifier: MIT
 *
 * The limits of a task as they are now: what another thread has made of those in its options, and what the task has
 * used of them. The struct lies in memory that outlives the task's scope, such as the task's future. Any thread. */
#ifndef STI_ALLOC_PLATFORM_LIMITS_H
#define STI_ALLOC_PLATFORM_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>

/* Each limit is a word of its own, and the version says that there is something new among them. Nothing else is
 * published through them.
 *
 *   changer   stores the words (relaxed); adds STI_LIMITS_STEP to the version (seq_cst); then requests a sample of all
 *             threads, and wakes the watch
 *   scope     in a sample point, and before it begins: loads the version (seq_cst); if it is another than the one that
 *             it has taken: loads the words (relaxed), and goes by them from then on
 *   watch     does the same with the words for time whenever it looks, for scopes that make no sample points
 *   scope     as it trips: sets STI_LIMITS_STOPPED in the version (seq_cst); a changer that finds it there is too late
 *
 * The version and the request are the flag and the 0 of thread.h: so the scope's next sample point sees the change. The
 * sample point may read words of a change that is still under way; then it sees that change's version next. Changers
 * come one after the other, under a lock, so the words of the last version are those of one change.
 *
 * What the task has used is for readers only, and as it was at its last sample point (relaxed). */

#define STI_LIMITS_STOPPED UINT64_C(1)
#define STI_LIMITS_STEP UINT64_C(2)

struct sti_limits {
    _Atomic uint64_t version; /* 0: what the options say, and the next ones are not to be read */
    _Atomic uint64_t allocation;
    _Atomic uint64_t memory;
    _Atomic uint64_t wall_ns;
    _Atomic uint64_t cpu_ns;
    _Atomic uint64_t run_ns;
    void (*changed)(void *arg); /* not NULL: of the limits only wall_ns and run_ns are the scope's, and the watch calls
                                   this with the argument of its function, under its lock, when they have changed, or
                                   somebody asks what has been used. Set before others see the task */
    _Atomic uint64_t start;     /* when its function began, by sti_clock_now; 0: it has not, or nobody knows */
    _Atomic uint64_t allocated;
    _Atomic uint64_t peak;
    _Atomic uint64_t cpu_used;
    _Atomic uint64_t asked; /* so often has somebody asked for these three of a walled task */
};

/* Initialise all but the limits themselves, for a task that is just being made. */
static inline void sti_limits_init(struct sti_limits *limits)
{
    atomic_init(&limits->version, 0);
    limits->changed = NULL;
    atomic_init(&limits->start, 0);
    atomic_init(&limits->allocated, 0);
    atomic_init(&limits->peak, 0);
    atomic_init(&limits->cpu_used, 0);
    atomic_init(&limits->asked, 0);
}

/* The version of the limits that count now; 0: the limits of the options count. */
static inline uint64_t sti_limits_version(const struct sti_limits *limits)
{
    return atomic_load_explicit(&limits->version, memory_order_seq_cst) & ~STI_LIMITS_STOPPED;
}

/* The limits that count now, where another thread has changed them. */
static inline stint_budget sti_limits_read(const struct sti_limits *limits)
{
    return (stint_budget){
        .allocation = atomic_load_explicit(&limits->allocation, memory_order_relaxed),
        .memory = atomic_load_explicit(&limits->memory, memory_order_relaxed),
        .wall_ns = atomic_load_explicit(&limits->wall_ns, memory_order_relaxed),
        .cpu_ns = atomic_load_explicit(&limits->cpu_ns, memory_order_relaxed),
        .run_ns = atomic_load_explicit(&limits->run_ns, memory_order_relaxed),
    };
}

/* And where they may have been. limits may be NULL: nobody can change them. */
static inline stint_budget sti_limits_now(const struct sti_limits *limits, const stint_budget *given)
{
    return limits != NULL && sti_limits_version(limits) != 0 ? sti_limits_read(limits) : *given;
}

/* UINT64_MAX where it would be more. */
static inline uint64_t sti_saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Where a limit that counts from there ends; UINT64_MAX: never. */
static inline uint64_t sti_limits_end(uint64_t begin, uint64_t limit)
{
    return limit != 0 ? sti_saturating_add(begin, limit) : UINT64_MAX;
}

/* The earlier of the two that a task has which was submitted and started then. */
static inline uint64_t sti_limits_deadline(const stint_budget *budget, uint64_t submitted, uint64_t start)
{
    uint64_t whole = sti_limits_end(submitted, budget->wall_ns);
    uint64_t run = sti_limits_end(start, budget->run_ns);
    return run < whole ? run : whole;
}

/* By one changer at a time: make these the limits. False: the task has been stopped. */
static inline bool sti_limits_store(struct sti_limits *limits, const stint_budget *budget)
{
    atomic_store_explicit(&limits->allocation, budget->allocation, memory_order_relaxed);
    atomic_store_explicit(&limits->memory, budget->memory, memory_order_relaxed);
    atomic_store_explicit(&limits->wall_ns, budget->wall_ns, memory_order_relaxed);
    atomic_store_explicit(&limits->cpu_ns, budget->cpu_ns, memory_order_relaxed);
    atomic_store_explicit(&limits->run_ns, budget->run_ns, memory_order_relaxed);
    return (atomic_fetch_add_explicit(&limits->version, STI_LIMITS_STEP, memory_order_seq_cst) & STI_LIMITS_STOPPED) ==
           0;
}

static inline void sti_limits_note_stop(struct sti_limits *limits)
{
    atomic_fetch_or_explicit(&limits->version, STI_LIMITS_STOPPED, memory_order_seq_cst);
}

#endif
