/* SPDX-License-Identifier: MIT
 *
 * Retired heaps: of tasks that ended Ok and left live blocks there. Thread of the heaps only. */
#ifndef STI_ALLOC_ROLLBACK_RETIRED_H
#define STI_ALLOC_ROLLBACK_RETIRED_H

#include <stdbool.h>

/* --- Retired heaps: of tasks that ended Ok and left live blocks there, and nurseries that are full. Each waits on its
 * thread until others have freed all of those, and is used again then; in the end on a list of the process's. Thread of
 * the heaps only.
 *
 * None is deleted with blocks in it (mi_heap_delete), which would give them and their pages to the process:
 * mimalloc 3.6 gives up each page to whoever frees in it next, and then moves it as if nobody had. A stretch of some
 * instructions on the other thread is enough to have two own a page.
 *
 * For the same reason a heap of which mimalloc has given up a page is looked at only through its thread's own pages,
 * and mimalloc's count of all. When none is left but its thread's, whoever freed the last blocks may still be at work
 * in what is left of their pages: so it is not used again before all have left who freed a block then (free.h). A
 * heap that was taken before the process's frees were told of waits for 10 s from then on: those of one moment in the
 * process's life, when such a heap is retired for the first time. */

struct sti_heap;
struct sti_thread;

/* Nobody's any more, with live blocks in it or not. */
void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap);

/* One that has become empty. NULL: none among the few that were looked at; the next time it is the next ones' turn. */
struct sti_heap *sti_retired_take(struct sti_thread *thread, bool is_nursery);

/* End those that have become empty, and give up the free pages of the others. */
void sti_retired_give_back(struct sti_thread *thread);

/* The thread ends: what is left is looked at; and goes to the process's list, when mimalloc has nothing of the thread
 * any more: whoever destroys one of those heaps would wait for what the thread is in the midst of. */
void sti_retired_end_thread(struct sti_thread *thread);
void sti_retired_hand_over(struct sti_thread *thread);

#endif
