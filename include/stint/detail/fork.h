/* SPDX-License-Identifier: MIT
 *
 * What stint_fork and stint_join of stint/fork.h are made of, so that they cost a few instructions where they stand.
 * Nothing here but those two is called by a user: what ends in an underscore changes from one version to the next. On
 * the thread that forks. */
#ifndef STINT_DETAIL_FORK_H
#define STINT_DETAIL_FORK_H

#include <errno.h>
#include <stint/fork.h>

STINT_BEGIN_DECLS

#define STINT_FORK_SLOTS_ 4096

/* The forks of a thread, as far as the fast paths know them. The first line is the thread's own; of the second, others
 * write limit and floor: to ask for work, they make them such that the next fork or join takes its slow path. */
struct stint_forks_ {
    size_t depth; /* outstanding forks */
    char line[64 - sizeof(size_t)];
    size_t limit; /* atomic; a fork at this depth or beyond goes the slow way */
    size_t floor; /* atomic; a join of an index below goes the slow way */
    char lines[64 - 2 * sizeof(size_t)];
    stint_subtask *slots[STINT_FORK_SLOTS_];
} __attribute__((aligned(64)));

#define STINT_FORK_JOINED_ (SIZE_MAX - 1)
#define STINT_FORK_IN_JOIN_ (SIZE_MAX - 2) /* it runs in its join */

/* The calling thread's; never NULL. */
extern STINT_API __thread struct stint_forks_ *stint_thread_forks_ __attribute__((tls_model("initial-exec")));

STINT_API int stint_fork_slow_(stint_subtask *subtask, stint_fn *fn, void *arg);
STINT_API int stint_join_slow_(stint_subtask *subtask, void **value);

/* Whether an index is at a word of the second line or beyond: a relaxed load. gcc would keep an atomic load apart from
 * the comparison, which is one instruction more each time. */
static inline __attribute__((always_inline)) int stint_fork_reaches_(const size_t *word, size_t index)
{
#if defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__) && !defined(__clang__)
    int reaches;
    __asm__ __volatile__("cmpq\t{%2, %1|%1, %2}" : "=@ccae"(reaches) : "r"(index), "m"(*word));
    return reaches;
#else
    return index >= __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

static inline __attribute__((always_inline)) int stint_fork_here_(struct stint_forks_ *forks, stint_subtask *subtask,
                                                                  stint_fn *fn, void *arg)
{
    size_t depth = forks->depth;
    if (__builtin_expect(stint_fork_reaches_(&forks->limit, depth), 0))
        return stint_fork_slow_(subtask, fn, arg);
    subtask->fn_ = fn;
    subtask->arg_ = arg;
    subtask->index_ = depth;
    forks->slots[depth] = subtask;
    /* An interrupt by a signal finds the entry whole, or does not find it. */
    __atomic_signal_fence(__ATOMIC_RELEASE);
    forks->depth = depth + 1;
    return 0;
}

/* Take the newest fork back, to call its function. False: it has to be joined slowly. */
static inline __attribute__((always_inline)) int stint_take_here_(struct stint_forks_ *forks, stint_subtask *subtask)
{
    size_t index = subtask->index_;
    if (__builtin_expect(forks->depth - 1 != index || !stint_fork_reaches_(&forks->floor, index), 0))
        return 0;
    /* The same as depth - 1, but known since the fork: the processor need not wait for all forks and joins in
     * between. */
    __asm__("" : "+r"(index));
    forks->depth = index;
    subtask->index_ = STINT_FORK_JOINED_;
    return 1;
}

static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg)
{
    if (__builtin_expect(subtask == NULL || fn == NULL, 0))
        return EINVAL;
    return stint_fork_here_(stint_thread_forks_, subtask, fn, arg);
}

static inline int stint_join(stint_subtask *subtask, void **value)
{
    void *unused;
    if (__builtin_expect(subtask == NULL || !stint_take_here_(stint_thread_forks_, subtask), 0))
        return stint_join_slow_(subtask, value);
    if (value == NULL)
        value = &unused;
    *value = NULL;
    return subtask->fn_(subtask->arg_, value);
}

STINT_END_DECLS

#endif
