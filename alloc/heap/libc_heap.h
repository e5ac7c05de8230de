/* SPDX-License-Identifier: MIT
 *
 * Heaps for what libc allocates for itself in a scope. Such blocks outlive the scope whatever becomes of it: they hang
 * on handles, which are closed (undo.h), or on tables of libc's. So their heap is never destroyed, and the thread's
 * next scope has it with what was left there, which does not count for that scope. That they have one is for the meter:
 * what libc holds for a task counts for its memory limit. Thread of the scope only. */
#ifndef STI_ALLOC_HEAP_LIBC_HEAP_H
#define STI_ALLOC_HEAP_LIBC_HEAP_H

#include <stddef.h>

struct sti_scope;
struct sti_thread;

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

#endif
