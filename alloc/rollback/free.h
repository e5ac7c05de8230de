/* SPDX-License-Identifier: MIT
 *
 * Giving blocks back: which function does; wiping, one of the reasons for which it may be another; and who is doing it
 * just now. Any thread, unless a function says otherwise. */
#ifndef STI_ALLOC_ROLLBACK_FREE_H
#define STI_ALLOC_ROLLBACK_FREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What gives a block back: mimalloc's function, the profiler's while it follows any; and for good, once a task has been
 * wiped or blocks of the nursery had to be kept, the one that looks for all of these. */
typedef void sti_free_fn(void *block);
extern _Atomic(sti_free_fn *) sti_free_function __attribute__((visibility("hidden"))); /* as in caller.h */

void sti_free_watched(void *block);

/* Have it be another one, unless it is that one, which stays. Any thread. */
void sti_free_by(sti_free_fn *function);

/* The profiler follows blocks for one more reason, a profile or a task with a rate, by this function; or for one less.
 * Any thread. */
void sti_free_follow(sti_free_fn *function, bool more);

/* In the child of a fork(2), where nobody else runs: for no reason. False: nor was there one ever before. */
bool sti_free_follow_none(void);

/* From now on whoever frees tells of it (below): mimalloc's function is not used any more. Any thread. */
void sti_free_tell(void);
bool sti_free_is_told(void);

/* What the functions do in the end. */
void sti_free_last(void *block);

/* relaxed: a block that is followed or to be wiped is in the caller's hands after the change. */
static inline __attribute__((always_inline)) void sti_free(void *block)
{
    atomic_load_explicit(&sti_free_function, memory_order_relaxed)(block);
}

/* --- Wiping: what a task with options.wipe wrote into its blocks is zeroed before they can be anybody else's.
 *
 * Its live blocks are when its heap is destroyed (heap.c). Those that are freed before must be at once, since their
 * page may go to another heap. While such a task runs every free of the process zeroes its block, as a block does not
 * tell whose it was, and another thread may free one of the task's. For that the function behind free (free.c) is
 * changed when the first such task begins, and stays changed, so that nobody has to be waited for: processes that never
 * wipe pay nothing, others one load a free. */

/* A task that is to be wiped begins, before it allocates, and has ended, when its memory has been given back or
 * committed. Any thread. */
void sti_wipe_begin(void);
void sti_wipe_end(void);

/* Zero a live block. Its owner's thread. */
void sti_wipe_block(void *block);

/* Does one run now? Any thread. */
bool sti_wipe_is_due(void);

/* --- Who is just freeing a block: so that a heap is ended or used again only when nobody works in what is left of it.
 *
 * Whoever frees the last block of a page that mimalloc has given up frees the page, and takes it off its heap's record,
 * step by step: counts, the table of pages, a bitmap, with a last look at the heap when the page has gone; and between
 * two steps he may have to wait for a processor. Nothing in mimalloc tells when he has left. So whoever frees says so
 * himself, as in read-copy-update: each thread has a record with a number, odd while it frees.
 *
 *   who frees:  number + 1 (relaxed), release fence; mi_free; number + 1 (release)
 *   who ends:   sees that the heap has no page left, acquire fence; then looks at each record (acquire) until its
 *               number is even, or another one than at the first look: only then at the next
 *
 * Whoever took a block or a page of this heap from it, so that none is left, had made his number odd before. He took it
 * by atomic changes behind the release fence; who ends has read what these left, and looks behind an acquire fence: so
 * he sees that odd number or a later one (C11 7.17.4). If it is a later one, or becomes one, the free is over, and what
 * was done in it has been done (release, acquire). No later free works in the heap: it has no block that one could be
 * given. Records are never freed, and those that are made later are of threads that came to no block of the heap. No
 * thread waits for another: who ends looks again later.
 *
 * This costs a free some 20 instructions. So it begins only when it is first needed, by a change of the function behind
 * free (free.h), and stays: what frees a block that was made after the change has been called after it. Of a heap that
 * was taken before, blocks may be just being freed by somebody who has not said so; it is held back until the change is
 * so long ago that no free that began before it can be under way (retired.c). */

struct sti_freer;

/* From now on every free is told of; and since when, by sti_clock_now(). 0: it is not. What has been made after a
 * thread has found it so, is freed by those who tell. */
void sti_freeing_tell(void);
uint64_t sti_freeing_told_since(void);

/* In place of mimalloc's free, and around what frees by itself. The second is given what the first has returned. */
void sti_freeing_free(void *block);
struct sti_freer *sti_freeing_enter(void);
void sti_freeing_leave(struct sti_freer *freer);

/* The thread ends, and with it mimalloc's parts of its heaps: until that is done it counts as one that frees. False:
 * out of memory. */
bool sti_freeing_stay_to_end(void);

/* Waiting, without a stop, for those who are freeing now. Its owner's thread, or with its lock. */
struct sti_freeing_wait {
    struct sti_freer *freer; /* the next to be looked at; NULL: they all have left */
    uint64_t number;
};

/* Begin; the heap has been seen without a page. */
struct sti_freeing_wait sti_freeing_wait(void);

/* Have all left who were there when it began? */
bool sti_freeing_is_over(struct sti_freeing_wait *wait);

/* At start. */
void sti_freeing_start(void);

/* In the child of a fork(2). */
void sti_freeing_in_child(void);

#endif
