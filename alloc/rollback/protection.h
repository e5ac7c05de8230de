/* SPDX-License-Identifier: MIT
 *
 * Pages of its own heap that a task has protected with mprotect: a guard page below a stack, or what is not to be
 * written to any more. Blocks of a heap that is rolled back go to whoever allocates next, so access to their pages is
 * given back first. What a task frees with the protection on, or leaves so when it ends Ok, is its program's concern,
 * as it is anywhere.
 *
 * They are in the record of mappings (mapping.h), beyond all addresses of it and of descriptors (descriptor.h), and go
 * the same ways: to the scope around, or to nobody. */
#ifndef STI_ALLOC_ROLLBACK_PROTECTION_H
#define STI_ALLOC_ROLLBACK_PROTECTION_H

#include <stdbool.h>
#include <stdint.h>

struct sti_mapped;
struct sti_scope;
struct sti_thread;

/* Does the page belong to a heap of the task that the thread is in? Thread of the scope. */
bool sti_protection_concerns(const struct sti_thread *thread, uintptr_t page);

/* The scope is about to take access away. False: out of memory. Thread of the scope. */
bool sti_protection_note(struct sti_scope *scope, uintptr_t begin, uintptr_t end);

/* Somebody has given it back. Any thread. */
void sti_protection_forget(uintptr_t begin, uintptr_t end);

/* Give back what is left, before anything of the heaps is touched. Thread of the scope, outside of it. */
void sti_protections_rollback(struct sti_mapped *mapped);

#endif
