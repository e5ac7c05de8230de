/* SPDX-License-Identifier: MIT
 *
 * What stint_fork and stint_join of stint/fork.h, and the forks of stint/fork.h, are made of, so that they cost a
 * few instructions where they stand. Nothing here but those two is called by a user: what ends in an underscore changes
 * from one version to the next. On the thread that forks. */
#ifndef STINT_FORK_H /* included by itself: what leads here has to come first */
#include <stint/fork.h>
#endif

#ifndef STINT_DETAIL_FORK_H
#define STINT_DETAIL_FORK_H

#include <errno.h>
#include <string.h>

STINT_BEGIN_DECLS

#define STINT_FORK_SLOTS_ 4096
#define STINT_FORK_PAYLOAD_ 48 /* bytes */

/* An outstanding fork. A plain one lies where its caller has put it, a typed one lies here: its argument, in whose
 * place a thief leaves the result. */
struct stint_fork_slot_ {
    const void *fork; /* a stint_subtask; or the odd address of a typed fork's kind; NULL: a hole */
    void *frame;      /* of whoever made the typed fork: the end of its frames */
    char payload[STINT_FORK_PAYLOAD_];
} __attribute__((aligned(64)));

/* What is known of all forks of one function. No subtask has an odd address. */
struct stint_fork_kind_ {
    char even, odd;
    stint_fn *call; /* with the payload */
};

/* The size of an array: negative, so that it does not compile, where the types are too large for a slot. */
#define STINT_FORK_FITS_(argument_type, result_type)                                                                   \
    (sizeof(argument_type) <= STINT_FORK_PAYLOAD_ && sizeof(result_type) <= STINT_FORK_PAYLOAD_ ? 1 : -1)

/* The forks of a thread, as far as the fast paths know them. A fork's place is its slot's address, which tells it from
 * those of all other threads, too. The first line is the thread's own; of the second, others write limit and floor: to
 * ask for work, they make them such that the next fork or join takes its slow path. */
struct stint_forks_ {
    size_t depth; /* the place of the next fork */
    char line[64 - sizeof(size_t)];
    size_t limit; /* atomic; a fork at this place or beyond goes the slow way */
    size_t floor; /* atomic; a join of a place below goes the slow way */
    char lines[64 - 2 * sizeof(size_t)];
    struct stint_fork_slot_ slots[STINT_FORK_SLOTS_];
} __attribute__((aligned(64)));

#define STINT_FORK_JOINED_ (SIZE_MAX - 1)
#define STINT_FORK_IN_JOIN_ (SIZE_MAX / 2 + 1) /* from there on it runs in its join */

/* The calling thread's; never NULL. */
extern STINT_API __thread struct stint_forks_ *stint_thread_forks_ __attribute__((tls_model("initial-exec")));

STINT_API int stint_fork_slow_(stint_subtask *subtask, stint_fn *fn, void *arg);
STINT_API int stint_join_slow_(stint_subtask *subtask, void **value);

/* A fork off its fast path: a slot to write it into, NULL where there is none; then its place. */
STINT_API struct stint_fork_slot_ *stint_fork_slot_slow_(void);
STINT_API size_t stint_fork_push_slow_(const struct stint_fork_slot_ *slot);

/* Its join: the result, if another thread has run it, or zeros with an error, until the next fork. NULL: nobody has
 * taken it, and the caller is to call its function. */
struct stint_fork_result_ {
    const void *payload;
    int error;
};
STINT_API struct stint_fork_result_ stint_join_typed_slow_(size_t place, const struct stint_fork_kind_ *kind);

/* Whether a place is at a word of the second line or beyond: a relaxed load. gcc would keep an atomic load apart from
 * the comparison, which is one instruction more each time. */
static inline __attribute__((always_inline)) int stint_fork_reaches_(const size_t *word, size_t place)
{
#if defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__) && !defined(__clang__)
    int reaches;
    __asm__ __volatile__("cmpq\t{%2, %1|%1, %2}" : "=@ccae"(reaches) : "r"(place), "m"(*word));
    return reaches;
#else
    return place >= __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

#ifdef __cplusplus
#define STINT_FORK_CAST_(type, address) reinterpret_cast<type>(address)
#else
#define STINT_FORK_CAST_(type, address) ((type)(address))
#endif

static inline __attribute__((always_inline)) struct stint_fork_slot_ *stint_fork_at_(size_t place)
{
    return STINT_FORK_CAST_(struct stint_fork_slot_ *, place);
}

/* The slot at depth, which has been written, is a fork now. */
static inline __attribute__((always_inline)) void stint_fork_push_(struct stint_forks_ *forks, size_t depth)
{
    /* An interrupt by a signal finds the entry whole, or does not find it. */
    __atomic_signal_fence(__ATOMIC_RELEASE);
    forks->depth = depth + sizeof(struct stint_fork_slot_);
}

/* Take the newest fork back, to call its function. False: it has to be joined slowly. */
static inline __attribute__((always_inline)) int stint_fork_take_(struct stint_forks_ *forks, size_t place)
{
    if (__builtin_expect(
            forks->depth - sizeof(struct stint_fork_slot_) != place || !stint_fork_reaches_(&forks->floor, place), 0))
        return 0;
    /* The same as what depth said, but known since the fork: the processor need not wait for all forks and joins in
     * between. */
    __asm__("" : "+r"(place));
    forks->depth = place;
    return 1;
}

/* The end of the stack of the function that this stands in: its frame lies beyond it. So NAME_fork of STINT_FORKABLE is
 * inlined at once, and what it calls with this, NAME_fork_from_, late: then gcc first splits the short way of the
 * leaves off the function that forks. Where both are inlined at once that way is hidden, and a fork costs half as much
 * again. */
static inline __attribute__((always_inline)) void *stint_fork_frame_(void)
{
#if defined(__x86_64__) && defined(__LP64__)
    void *frame;
    __asm__("movq\t{%%rsp, %0|%0, rsp}" : "=r"(frame));
    return frame;
#elif defined(__aarch64__)
    void *frame;
    __asm__("mov\t%0, sp" : "=r"(frame));
    return frame;
#elif defined(__riscv)
    void *frame;
    __asm__("mv\t%0, sp" : "=r"(frame));
    return frame;
#else
    return __builtin_frame_address(0);
#endif
}

/* Write a typed fork into its slot. */
static inline __attribute__((always_inline)) void stint_fork_write_(struct stint_fork_slot_ *slot,
                                                                    const struct stint_fork_kind_ *kind, void *frame,
                                                                    const void *argument, size_t size)
{
    slot->fork = &kind->odd;
    slot->frame = frame;
    memcpy(slot->payload, argument, size);
}

static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg)
{
    struct stint_forks_ *forks = stint_thread_forks_;
    if (__builtin_expect(subtask == NULL || fn == NULL, 0))
        return EINVAL;
    size_t depth = forks->depth;
    if (__builtin_expect(stint_fork_reaches_(&forks->limit, depth), 0))
        return stint_fork_slow_(subtask, fn, arg);
    subtask->fn_ = fn;
    subtask->arg_ = arg;
    subtask->place_ = depth;
    stint_fork_at_(depth)->fork = subtask;
    stint_fork_push_(forks, depth);
    return 0;
}

static inline int stint_join(stint_subtask *subtask, void **value)
{
    void *unused;
    if (__builtin_expect(subtask == NULL || !stint_fork_take_(stint_thread_forks_, subtask->place_), 0))
        return stint_join_slow_(subtask, value);
    subtask->place_ = STINT_FORK_JOINED_;
    if (value == NULL)
        value = &unused;
    *value = NULL;
    return subtask->fn_(subtask->arg_, value);
}

STINT_END_DECLS

#endif
