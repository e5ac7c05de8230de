/* SPDX-License-Identifier: MIT
 *
 * Retired heaps: of tasks that ended Ok and left live blocks there, and nurseries that are full. Each waits on its thread
 * until others have freed all of those, and is used again then; in the end on a list of the process's. Thread of the heaps only.
 *
 * None is deleted with blocks in it (mi_heap_delete), which would give them and their pages to the process: mimalloc 3.6
 * gives up each page to whoever frees in it next, and then moves it as if nobody had. A stretch of some instructions on
 * the other thread is enough to have two own a page.
 *
 * For the same reason a heap is empty only when no page is left of those that mimalloc has given up: the last block of one is
 * gone before the page is, and whoever has freed it still works there. And since he has a last look at the heap's record
 * when the page has gone, such a heap is not used again at once: 0.1 s is 10^8 times what he needs. Longer
 * would be safer where a processor is shared by many, and takes memory: at 1 s a loop of tasks that leave 200 KB each has 20
 * MiB more of such heaps. */
#ifndef STI_ALLOC_RETIRED_H
#define STI_ALLOC_RETIRED_H

#include <stdbool.h>

struct sti_heap;
struct sti_thread;

/* Nobody's any more, with live blocks in it or not. */
void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap);

/* One that has become empty. NULL: none among the few that were looked at; the next time it is the next ones' turn. */
struct sti_heap *sti_retired_take(struct sti_thread *thread);

/* End those that have become empty, and give up the free pages of the others. */
void sti_retired_give_back(struct sti_thread *thread);

/* The thread ends: what is left goes to the process's list. */
void sti_retired_end_thread(struct sti_thread *thread);

#endif
