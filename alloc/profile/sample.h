/* SPDX-License-Identifier: MIT
 *
 * A thread's samples, and the set of sampled blocks that are followed, by address. Any thread; no callback is called in
 * here, and nothing of it is held when a function returns.
 *
 * Whoever frees a block has to know whether it is in the set, and nearly none is. So there is a mark for each 256 bytes
 * of address space, modulo 128 MiB, that is set exactly while a block that begins in such 256 bytes is in the set: a
 * free looks at one byte, and marks that lie together belong to blocks that lie together. The blocks of each KiB are on
 * a list, under one of a few locks.
 *
 * A block's free happens after it was handed out, and it was in the set before: so the mark needs no order of its
 * own. */
#ifndef STI_ALLOC_PROFILE_SAMPLE_H
#define STI_ALLOC_PROFILE_SAMPLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/memprof.h>

#include "alloc/base/backend.h"
#include "alloc/base/sampling.h"

struct sti_tracked {
    uintptr_t block;
    sti_backend_heap *heap; /* NULL: the process's */
    void *metadata;
    bool promoting; /* its promote callback is running, or about to */
    bool gone;      /* meanwhile it was taken out, with this end */
    stint_memprof_end end;
    struct sti_tracked *next; /* on its list; once it is out of the set, its holder's */
};

/* Its gone need not be set. */
void sti_tracked_add(struct sti_tracked *entry);

/* Take the block out. NULL: it is not in the set, or it is being promoted: then whoever does that hears of its end. */
struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end);

/* The same if it lies in this heap. */
struct sti_tracked *sti_tracked_take_of(uintptr_t block, const sti_backend_heap *heap, stint_memprof_end end);

/* A block of this heap becomes the process's. Returns it for its promotion, or NULL. It stays in the set. */
struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, const sti_backend_heap *heap);

/* The promotion is done; it is followed with this metadata (NULL: no more). True: it is out of the set, since it has
 * come to its end meanwhile or is not followed any more, and is the caller's. */
bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata);

/* Is there such a block in the set? */
bool sti_tracked_is_of(uintptr_t block, const sti_backend_heap *heap);

/* Show the metadata of such a block, under the set's lock. */
typedef void sti_tracked_show_fn(uintptr_t block, const void *metadata, void *arg);
void sti_tracked_show(uintptr_t block, const sti_backend_heap *heap, sti_tracked_show_fn *show, void *arg);

/* Take out all of them, chained by next; the end of those that are being promoted is told to whoever does that. */
struct sti_tracked *sti_tracked_take_all(stint_memprof_end end);

/* In the child of a fork(2), where nobody else runs: empty the set. */
void sti_tracked_forget_all(void);

/* --- A thread's samples. Thread of the record, unless a function says otherwise. --- */

/* Count outside of scopes from now on, on the calling thread. Called by each free while a profile runs; the other is
 * called by mimalloc, once in a thousand allocations that leave its fast path. */
void sti_memprof_count_thread(void);
void sti_memprof_heartbeat(bool force, unsigned long long count, void *unused);

/* free while a profile runs. Any thread. */
void sti_memprof_free(void *block);

/* What the rest of the library has done through sampling.h. */
void sti_memprof_join(struct sti_thread *thread);
uint64_t sti_memprof_draw(struct sti_thread *thread, uint64_t charge);
void sti_memprof_draw_again(struct sti_thread *thread);
void sti_memprof_meter_outside(struct sti_thread *thread, uint64_t charge);
void *sti_memprof_made_sampled(struct sti_thread *thread, void *block, size_t size, size_t alignment,
                               const void *caller);
void *sti_memprof_reallocate(struct sti_thread *thread, void *block, size_t size, const void *caller);

#endif
