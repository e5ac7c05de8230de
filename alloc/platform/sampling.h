/* SPDX-License-Identifier: MIT
 *
 * Sampling: where the samples of a profile fall, and what the rest of the library tells the profiler. */
#ifndef STI_ALLOC_PLATFORM_SAMPLING_H
#define STI_ALLOC_PLATFORM_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks.h"

/* --- A Poisson process over a stream of bytes: where its samples fall. One thread a sampler; it allocates nothing and
 * calls nothing outside its file, so it may be used in the middle of an allocation.
 *
 * Every byte is as likely to be sampled as any other, whatever was sampled before. So the number of samples in a block
 * of size bytes has the Poisson distribution of mean size / mean_bytes, and samples × mean_bytes is an estimate of the
 * bytes without bias. As in tcmalloc and in OCaml's Memprof; docs/metering.md has the formulas. */
struct sti_sampler {
    uint64_t random[4]; /* xoshiro256++ */
    double mean_bytes;
    double fraction; /* of a byte: where in the sampled byte the last sample fell */
};

/* mean_bytes: from one sample to the next, at least 1. The same seed gives the same samples; seeds as near as 1 and 2
 * give unrelated ones. */
void sti_sampler_init(struct sti_sampler *sampler, uint64_t seed, double mean_bytes);

/* How many bytes the next sampled byte is after this one: 0 when it is the same. At the start of the stream: the bytes
 * before the first one that is sampled. */
uint64_t sti_sampler_interval(struct sti_sampler *sampler);

/* The next size bytes of the stream, at most PTRDIFF_MAX, become a block; before the next sampled byte there are
 * *to_next bytes, at first those of sti_sampler_interval. Returns how many samples fall in the block, and leaves in
 * *to_next the bytes from the block's end to the next sampled byte. A block of more than STI_SAMPLER_MAX_DRAWN means
 * gets the number to be expected in place of a random one: just as unbiased, more exact, and a huge block costs no more
 * than a large one. */
uint64_t sti_sampler_count(struct sti_sampler *sampler, uint64_t *to_next, uint64_t size);

#define STI_SAMPLER_MAX_DRAWN 65536

/* How many of so many samples fall to a holder of this share of them; each sample is drawn by itself. */
uint64_t sti_sampler_split(struct sti_sampler *sampler, uint64_t samples, double share);

/* --- Sampling: what the meter, the allocation functions, the heaps and the threads tell the profiler, which stands
 * above them all and is told by hooks (hooks.h). Each function says its thread.
 *
 * A thread takes part once it has joined the profile: it draws the place of its next sample, a value of its thread's
 * used, and the meter counts that among the places where it leaves its fast path. So the fast path knows nothing of
 * profiles. Outside of scopes there is no meter, and the allocation functions see no record (sti_thread_counted is
 * NULL): there a thread that joins gets its record counted with a limit that stays 0, so that each of its allocations
 * comes to the slow path, for as long as the profile runs. */

struct sti_heap;
struct sti_rate;
struct sti_scope;
struct sti_thread;
struct sti_tracked_log;

/* What a thread's record has for the profile. */
struct sti_sampling {
    uint64_t next;            /* value of used from which the byte that is sampled next follows; UINT64_MAX: none */
    uint64_t profile_samples; /* of those that were drawn last */
    uint64_t rate_samples;
    uint64_t samples;          /* in the block that the last sample point was for, until it is made; mostly 0 */
    struct sti_rate *rates;    /* of its scopes, the innermost first; NULL: none has one */
    struct sti_rate *rate;     /* of the scope that it is in, or of one around that; NULL: none */
    uint64_t profile;          /* the one it has joined; 0: none */
    double interval;           /* of that one, bytes; 0: it draws none for it */
    struct sti_sampler random; /* of the samples of both */
    void **callstack;          /* room for as many frames as that asks for */
    size_t depth;
    struct sti_tracked_log *log; /* of the blocks in its heaps that are followed */
    size_t logged;               /* in it */
    struct sti_thread *outside;  /* the record while the thread is counted outside of scopes, otherwise NULL */
};

/* Number of the running profile; 0: none runs. The profiler changes it. */
extern _Atomic uint64_t sti_sampling_profile;

/* Blocks may be followed: free and realloc have to ask. Changed with the function behind free (free.h). */
extern atomic_bool sti_sampling_follows;

/* False: it is to join. */
static inline bool sti_sampling_is_joined(const struct sti_sampling *sampling)
{
    return __builtin_expect(atomic_load_explicit(&sti_sampling_profile, memory_order_seq_cst) == sampling->profile, 1);
}

/* The block that the last sample point was for has been made (NULL: it could not be). alignment: 0 where it is the
 * usual one. The block. Thread of the record. */
#define sti_sampling_made(thread, block, size, alignment, caller)                                                      \
    (__builtin_expect((thread)->sampling.samples == 0, 1)                                                              \
         ? (block)                                                                                                     \
         : sti_hooks.sampling.made((thread), (block), (size), (alignment), (caller)))

/* The heaps on the list are about to be committed or destroyed, and blocks are logged. Their thread. */
#define sti_sampling_end_heaps(thread, list, committed)                                                                \
    (__builtin_expect((thread)->sampling.logged == 0, 1)                                                               \
         ? (void)0                                                                                                     \
         : sti_hooks.sampling.end_logged((thread), (list), (committed)))

#define STI_SAMPLING_LISTS ((size_t)1 << 17)
#define STI_SAMPLING_MARKS (STI_SAMPLING_LISTS << 2)

/* A mark for each stretch of addresses in which a block that is followed may begin: observe/followed.h. NULL: none was
 * ever followed. No scan for roots looks at them; pages that nobody writes to cost nothing. */
extern _Atomic(_Atomic uint8_t *) sti_sampling_marks __attribute__((visibility("hidden")));

static inline size_t sti_sampling_mark(uintptr_t block)
{
    return block >> 8 & (STI_SAMPLING_MARKS - 1);
}

static inline bool sti_sampling_is_marked(const _Atomic uint8_t *marks, const void *block)
{
    return atomic_load_explicit(&marks[sti_sampling_mark((uintptr_t)block)], memory_order_relaxed) != 0;
}

/* False: it is not followed. */
static inline bool sti_sampling_may_follow(const void *block)
{
    const _Atomic uint8_t *marks = atomic_load_explicit(&sti_sampling_marks, memory_order_acquire); /* and their set */
    return __builtin_expect(marks != NULL && sti_sampling_is_marked(marks, block), 0);
}

#endif
