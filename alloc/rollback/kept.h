/* SPDX-License-Identifier: MIT
 *
 * What stays of a heap when its task has ended: blocks to which others may point, libc's own blocks, and in debug mode
 * whole heaps, in quarantine. */
#ifndef STI_ALLOC_ROLLBACK_KEPT_H
#define STI_ALLOC_ROLLBACK_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- What a rollback should have taken back, and a root still points to: such blocks, and those of the task that they
 * point to in turn, stay. From then on they are the process's: whoever takes one from the library that holds it may
 * have its only pointer on a stack or in a block, where no scan looks, so nothing but a free ends one. The rest of the
 * task's blocks go.
 *
 * How much was kept and has not been freed is known: such blocks are watched, and once there is one, free looks at a
 * mark first. Any thread may free; what is kept is for the thread whose rollback it is, outside of scopes. */

struct sti_heap;
struct sti_thread;

/* These are about to be destroyed: take off the list those in which something has to be kept, and end them. Returns the
 * bytes in blocks that are kept. */
size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task);

/* In all that was kept and has not been freed; and of how many heaps something was, so far. Any thread. */
size_t sti_kept_bytes(void);
uint64_t sti_kept_heaps(void);

#define STI_KEPT_MARKS ((size_t)1 << 16)

/* Not 0 while a block that falls there is watched. */
extern _Atomic uint8_t sti_kept_marks[STI_KEPT_MARKS];

/* False: it is not watched. */
static inline bool sti_kept_may_contain(const void *block)
{
    size_t mark = (uintptr_t)block >> 4 & (STI_KEPT_MARKS - 1);
    return __builtin_expect(atomic_load_explicit(&sti_kept_marks[mark], memory_order_relaxed) != 0, 0);
}

/* It is about to be freed. Any thread. */
void sti_kept_forget(const void *block);

/* --- Heaps for what libc allocates for itself in a scope. Such blocks outlive the scope whatever becomes of it: they
 * hang on handles, which are closed (undo.h), or on tables of libc's. So their heap is never destroyed, and the
 * thread's next scope has it with what was left there, which does not count for that scope. That they have one is for
 * the meter: what libc holds for a task counts for its memory limit. Thread of the scope only. */

struct sti_scope;

/* For the thread's innermost scope; charged already. */
void *sti_libc_heap_malloc(struct sti_thread *thread, size_t size);
void *sti_libc_heap_zalloc(struct sti_thread *thread, size_t size);
void *sti_libc_heap_aligned(struct sti_thread *thread, size_t alignment, size_t size);

/* Bytes in live blocks; what other threads have freed may count until it is collected. */
size_t sti_libc_heap_held(const struct sti_scope *scope);
void sti_libc_heap_collect(const struct sti_scope *scope);

/* The scope ends. What is left counts for the scope around it; NULL: for nobody. */
void sti_libc_heap_end(struct sti_thread *thread, struct sti_scope *scope, struct sti_scope *outer);

/* The thread ends, or gives back one that has become empty. */
void sti_libc_heap_retire(struct sti_thread *thread);

/* --- The quarantine of debug mode: heaps that were rolled back are made inaccessible and kept for a while, so that a
 * stale pointer into one faults where it is used, and the task is named. Thread of the heap only.
 *
 * Each thread keeps its last ones. No block lies in another's pages, as in debug mode no task uses the nursery.
 * mimalloc's own record of a page lies at its beginning and becomes inaccessible with it: it has no reason to look
 * there until the heap is destroyed or the thread ends, and for both it is made accessible again. What was in the
 * blocks goes back to the system at once: a heap in quarantine takes little more than its addresses. */

/* In place of sti_heap_end, which follows later. False: it cannot be kept. */
bool sti_quarantine_put(struct sti_thread *thread, struct sti_heap *heap);

/* Before mimalloc looks through the pages of the thread that ends: from the first of the destructors of thread-specific
 * values on. Destructors of thread_local variables, among which it ends by itself, come earlier, but libc calls none
 * for a main thread that ends by pthread_exit, and what comes after them may run scopes. */
void sti_quarantine_end_thread(struct sti_thread *thread);

/* In the child of a fork(2). */
void sti_quarantine_in_child(void);

#endif
