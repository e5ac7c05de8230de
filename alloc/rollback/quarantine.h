/* SPDX-License-Identifier: MIT
 *
 * The quarantine of debug mode: heaps that were rolled back are made inaccessible and kept for a while, so that a
 * stale pointer into one faults where it is used, and the task is named. Thread of the heap only.
 *
 * Each thread keeps its last ones. No block lies in another's pages, as in debug mode no task uses the nursery.
 * mimalloc's own record of a page lies at its beginning and becomes inaccessible with it: it has no reason to look
 * there until the heap is destroyed or the thread ends, and for both it is made accessible again. What was in the
 * blocks goes back to the system at once: a heap in quarantine takes little more than its addresses. */
#ifndef STI_ALLOC_ROLLBACK_QUARANTINE_H
#define STI_ALLOC_ROLLBACK_QUARANTINE_H

#include <stdbool.h>

struct sti_heap;
struct sti_thread;

/* In place of sti_heap_end, which follows later. False: it cannot be kept. */
bool sti_quarantine_put(struct sti_thread *thread, struct sti_heap *heap);

/* Before mimalloc looks through the pages of the thread that ends: from the first of the destructors of thread-specific
 * values on. Destructors of thread_local variables, among which it ends by itself, come earlier, but libc calls none
 * for a main thread that ends by pthread_exit, and what comes after them may run scopes. */
void sti_quarantine_end_thread(struct sti_thread *thread);

/* In the child of a fork(2). */
void sti_quarantine_in_child(void);

#endif
