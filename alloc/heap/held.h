/* SPDX-License-Identifier: MIT
 *
 * All that a scope holds: its heaps, its blocks in the nursery, libc's blocks and its mappings; and what a thread keeps
 * for its next tasks. Thread of the scope. */
#ifndef STI_ALLOC_HEAP_HELD_H
#define STI_ALLOC_HEAP_HELD_H

#include <stddef.h>

struct sti_heap;
struct sti_scope;
struct sti_thread;

/* Bytes that a scope's heaps and its blocks in the nursery hold. Its own heap's live blocks; of heaps that inner scopes
 * have left to it the pages, as nobody else can have those; of young blocks what was allocated, be it freed. Never too
 * few. */
size_t sti_heap_held(const struct sti_scope *scope);

/* Bytes in live blocks of a list of heaps that no scope has now, once what others have freed has been taken in. */
size_t sti_heap_list_held(const struct sti_heap *list);

/* Before a limit is called passed: take in what other threads have freed, let go of heaps that have become empty, and
 * find out which young blocks live. */
void sti_heap_measure_exactly(struct sti_thread *thread, struct sti_scope *scope);

/* An inner scope's heaps become the outer one's, and count there with all their pages: returns these bytes. Looks for
 * empty ones whenever there are twice as many as the last time. */
size_t sti_heap_hand_over(struct sti_thread *thread, struct sti_scope *inner, struct sti_scope *outer);

/* Give up what the thread keeps for its next tasks, as far as no open scope needs it. 20 µs and more. */
void sti_heap_give_back(struct sti_thread *thread);

/* The thread ends: give up all its heaps. mimalloc is still there. */
void sti_heap_end_thread(struct sti_thread *thread);

#endif
