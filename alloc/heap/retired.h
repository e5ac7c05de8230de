/* SPDX-License-Identifier: MIT
 *
 * Retired heaps: of tasks that ended Ok and left live blocks there. Thread of the heaps only. */
#ifndef STI_ALLOC_HEAP_RETIRED_H
#define STI_ALLOC_HEAP_RETIRED_H

#include <stdbool.h>

/* --- Retired heaps: of tasks that ended Ok and left live blocks there, and nurseries that are full. Each waits on its
 * thread until others have freed all of those, and is used again then; when the thread has ended, on a list of the
 * process's, for any thread. Thread of the heaps only.
 *
 * None is deleted with blocks in it (mi_heap_delete), which would give them and their pages to the process:
 * mimalloc 3.6 gives up each page to whoever frees in it next, and then moves it as if nobody had. A stretch of some
 * instructions on the other thread is enough to have two own a page.
 *
 * A heap of which mimalloc has given up a page, because its thread has ended, is never destroyed: whoever frees the
 * last block of such a page takes the page off the heap's record step by step, and nothing in mimalloc tells when he
 * has left. Used again it can be, once mimalloc counts no page of it: the record stays, and what he still does there
 * any thread may do at any time. Its next thread has a part of its own, which has none of those pages; so that part is
 * walked, and never the whole heap, and a rollback frees its blocks one by one: 6 ns each. There are no more such heaps
 * than were in use or had live blocks at once. */

struct sti_heap;
struct sti_thread;

/* Nobody's any more, with live blocks in it or not. */
void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap);

/* One that has become empty. NULL: none among the few that were looked at; the next time it is the next ones' turn. */
struct sti_heap *sti_retired_take(struct sti_thread *thread);

/* A heap that is not destroyed: any thread may use it, once it has no page. */
void sti_retired_leave(struct sti_heap *heap);

/* End those that have become empty. */
void sti_retired_give_back(struct sti_thread *thread);

/* The thread ends: those that are empty go; and, when mimalloc has nothing of the thread any more, the others are left
 * to any thread. */
void sti_retired_end_thread(struct sti_thread *thread);
void sti_retired_hand_over(struct sti_thread *thread);

#endif
