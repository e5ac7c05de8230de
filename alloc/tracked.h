/* SPDX-License-Identifier: MIT
 *
 * The set of sampled blocks that are followed, by address. Any thread; no callback is called in here, and nothing of it is
 * held when a function returns.
 *
 * Whoever frees a block has to know whether it is in the set, and nearly none is. So there is a bit for each 16 bytes of
 * address space, modulo 128 MiB, that is set exactly while a block at such an address is in the set: a free loads one
 * word of it, and words that lie together belong to blocks that lie together. Each word has the list of its blocks beside
 * it, in a second array, under one of a few locks.
 *
 * A block's free happens after it was handed out, and it was in the set before: so the bit needs no order of its own. */
#ifndef STI_ALLOC_TRACKED_H
#define STI_ALLOC_TRACKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/memprof.h>

#include "backend.h"

#define STI_TRACKED_WORDS ((size_t)1 << 17)

struct sti_tracked {
    uintptr_t block;
    sti_backend_heap *heap; /* NULL: the process's */
    void *metadata;
    bool promoting; /* its promote callback is running, or about to */
    bool gone;      /* meanwhile it was taken out, with this end */
    stint_memprof_end end;
    struct sti_tracked *next; /* of its word; once it is out of the set, its holder's */
};

/* NULL until the first profile. */
extern _Atomic(_Atomic uint64_t *) sti_tracked_bits;

static inline size_t sti_tracked_word(uintptr_t block)
{
    return (block >> 10) & (STI_TRACKED_WORDS - 1);
}

static inline uint64_t sti_tracked_bit(uintptr_t block)
{
    return UINT64_C(1) << ((block >> 4) & 63);
}

/* False: it is not in the set. Only once there has been a profile. */
static inline bool sti_tracked_may_contain(const void *block)
{
    _Atomic uint64_t *bits = atomic_load_explicit(&sti_tracked_bits, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&bits[sti_tracked_word((uintptr_t)block)], memory_order_relaxed);
    return __builtin_expect((word & sti_tracked_bit((uintptr_t)block)) != 0, 0);
}

/* Once before the first use. False: out of memory. */
bool sti_tracked_prepare(void);

void sti_tracked_add(struct sti_tracked *entry);

/* Take the block out. NULL: it is not in the set, or it is being promoted: then whoever does that hears of its end. */
struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end);

/* The same if it lies in this heap. */
struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, stint_memprof_end end);

/* A block of this heap becomes the process's. Returns it for its promotion, or NULL. It stays in the set. */
struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, const sti_backend_heap *heap);

/* The promotion is done; it is followed with this metadata (NULL: no more). True: it is out of the set, since it has come to
 * its end meanwhile or is not followed any more, and is the caller's. */
bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata);

/* Is there such a block in the set? */
bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap);

/* Take out any block of the word. NULL: it has none that is not being promoted. */
struct sti_tracked *sti_tracked_take_any(size_t word, stint_memprof_end end);

/* In the child of a fork, where nobody else runs: empty the set. */
void sti_tracked_forget_all(void);

#endif
