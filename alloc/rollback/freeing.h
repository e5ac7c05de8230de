/* SPDX-License-Identifier: MIT
 *
 * Who is just freeing a block: so that a heap is ended or used again only when nobody works in what is left of it. Any
 * thread, unless a function says otherwise.
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
#ifndef STI_ALLOC_ROLLBACK_FREEING_H
#define STI_ALLOC_ROLLBACK_FREEING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/* How many forks (fork(2)) lead to this process. Of a heap from before the last of them a page may be half given back
 * for ever, and mimalloc would wait for whoever does the rest. Whether somebody was freeing does not tell: the system
 * copies a process page by page, so the child may see the end of a free in one page and its beginning in another. */
uint64_t sti_freeing_forks(void);

#endif
