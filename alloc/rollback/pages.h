/* SPDX-License-Identifier: MIT
 *
 * What a task does to pages that are there already: it puts mappings in their place, or protects them. */
#ifndef STI_ALLOC_ROLLBACK_PAGES_H
#define STI_ALLOC_ROLLBACK_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "mapping.h"

/* --- Mappings in a given place: whose they are. mmap with MAP_FIXED and mremap with MREMAP_FIXED put pages in the
 * place of whatever is there: mappings of tasks, which the record knows, mappings of the process's, which it does not,
 * and nothing. What is in the place of somebody's is his from then on: so an allocator of the process's takes parts of
 * its reservation into use from inside a task, and no rollback leaves a hole in it. What was free is the task's, and
 * has to be found out before: afterwards it looks like the process's. Any thread, with the lock of the record, in which
 * stretches end at both ends of the place. */

/* Where the mappings that begin at the one address end, whosever they are, or what is free there and no less than a
 * page; at most the other address. */
uintptr_t sti_place_mapped_end(uintptr_t begin, uintptr_t end);
uintptr_t sti_place_free_end(uintptr_t begin, uintptr_t end);

/* Map what is free of it, without access, and put it into the record as this owner's. False: out of memory; it has been
 * given up again. */
bool sti_place_claim(uintptr_t begin, uintptr_t end, struct sti_mapped *owner);

/* The call that was to fill it has failed. What was claimed is free again; what else is not there any more, as the
 * system has unmapped it all the same, is nobody's. */
void sti_place_give_up(uintptr_t begin, uintptr_t end);

/* Mappings of tasks have been moved to it: where the process's were they are the process's; where those of another
 * scope's were, as this list by next from the highest to the lowest says, they are the older one's. */
void sti_place_settle(uintptr_t begin, uintptr_t end, const struct sti_mapping *before);

/* --- Pages of its own heap that a task has protected with mprotect: a guard page below a stack, or what is not to be
 * written to any more. Blocks of a heap that is rolled back go to whoever allocates next, so access to their pages is
 * given back first. What a task frees with the protection on, or leaves so when it ends Ok, is its program's concern,
 * as it is anywhere.
 *
 * They are in the record of mappings (mapping.h), beyond all addresses of it and of descriptors (descriptor.h), and go
 * the same ways: to the scope around, or to nobody. */

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
