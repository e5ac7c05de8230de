/* SPDX-License-Identifier: MIT
 *
 * The profiler from the inside: what the meter, the allocation functions, the heaps and the threads tell it. Each function
 * says its thread.
 *
 * A thread takes part once it has joined the profile: it draws the place of its next sample, a value of its thread's used,
 * and the meter counts that among the places where it leaves its fast path. So the fast path knows nothing of profiles.
 * Outside of scopes there is no meter, and the allocation functions see no record (sti_thread_counted is NULL): there a
 * thread that joins gets its record counted with a limit that stays 0, so that each of its allocations comes to the slow
 * path, for as long as the profile runs. */
#ifndef STI_ALLOC_BASE_SAMPLING_H
#define STI_ALLOC_BASE_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler.h"

struct sti_heap;
struct sti_thread;
struct sti_tracked_log;

/* What a thread's record has for the profile. */
struct sti_sampling {
    uint64_t next;             /* value of used from which the byte that is sampled next follows; UINT64_MAX: none */
    uint64_t samples;          /* in the block that the last sample point was for, until it is made; mostly 0 */
    uint64_t profile;          /* the one it has joined; 0: none */
    struct sti_sampler random; /* of it */
    void **callstack;          /* room for as many frames as that asks for */
    size_t depth;
    struct sti_tracked_log *log; /* of the blocks in its heaps that are followed */
    size_t logged;               /* in it */
    struct sti_thread *outside;  /* the record while the thread is counted outside of scopes, otherwise NULL */
};

/* Number of the running profile; 0: none runs. */
extern _Atomic uint64_t sti_memprof_profile;

/* Blocks may be followed: realloc has to ask. */
extern atomic_bool sti_memprof_follows;

/* False: the thread is to join the running profile, or to leave one that has been stopped. */
static inline bool sti_memprof_is_joined(const struct sti_sampling *sampling)
{
    return __builtin_expect(atomic_load_explicit(&sti_memprof_profile, memory_order_seq_cst) == sampling->profile, 1);
}

/* Join or leave. Thread of the record. */
void sti_memprof_join(struct sti_thread *thread);

/* So many bytes are charged from the thread's used on; it has joined. Returns how many samples fall there, and moves the
 * place of the next one. Thread of the record. */
uint64_t sti_memprof_draw(struct sti_thread *thread, uint64_t charge);

/* Those bytes were not charged after all. */
void sti_memprof_draw_again(struct sti_thread *thread);

/* An allocation outside of scopes. Thread of the record. */
void sti_memprof_meter_outside(struct sti_thread *thread, uint64_t charge);

/* The block that the last sample point was for has been made (NULL: it could not be). alignment: 0 where it is the usual
 * one. Returns the block. Thread of the record. */
void *sti_memprof_made_sampled(struct sti_thread *thread, void *block, size_t size, size_t alignment,
                               const void *caller);

#define sti_memprof_made(thread, block, size, alignment, caller)                                                       \
    (__builtin_expect((thread)->sampling.samples == 0, 1)                                                              \
         ? (block)                                                                                                     \
         : sti_memprof_made_sampled((thread), (block), (size), (alignment), (caller)))

/* realloc of a block that may be followed; thread may be NULL. Calling thread. */
void *sti_memprof_reallocate(struct sti_thread *thread, void *block, size_t size, const void *caller);

/* The heaps on the list are about to be committed or destroyed, and blocks are logged. Their thread. */
void sti_memprof_end_logged(struct sti_thread *thread, const struct sti_heap *list, bool committed);

#define sti_memprof_end_heaps(thread, list, committed)                                                                 \
    (__builtin_expect((thread)->sampling.logged == 0, 1) ? (void)0                                                     \
                                                         : sti_memprof_end_logged((thread), (list), (committed)))

/* A single block is about to be rolled back. Any thread. */
void sti_memprof_end_rolled_back(const void *block);

/* The thread ends. It may be used again with another. */
void sti_memprof_end_thread(struct sti_sampling *sampling);

#endif
