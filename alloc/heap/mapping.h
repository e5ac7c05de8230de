/* SPDX-License-Identifier: MIT
 *
 * What tasks have mapped: pages that they asked of the system itself. */
#ifndef STI_ALLOC_HEAP_MAPPING_H
#define STI_ALLOC_HEAP_MAPPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/platform/process.h"

/* --- Mappings. The overrides (interpose/override_mapping.c) note each one that a task makes; a rollback unmaps what is
 * left, a commit forgets it. Any thread may unmap, protect or move any part of any of them, so all stand in one table
 * by their addresses, under one lock: the kernel has one for the process's mappings too, and holds it longer.
 *
 * What counts as memory is what the kernel would count where it allows no more memory than there is
 * (Documentation/mm/overcommit-accounting.rst, mode 2): private pages that are or once were writable, and shared ones
 * that no file is behind. What is only reserved (PROT_NONE) or only read does not, until it is made writable. */

enum sti_mapping_kind {
    STI_MAPPING_FREE,     /* never counts: a file's pages, shared or only to be read, and their like */
    STI_MAPPING_RESERVED, /* private, and not to be written to: counts once it is made writable */
    STI_MAPPING_CHARGED,  /* counts */
};

struct sti_heap;
struct sti_mapped;
struct sti_scope;
struct sti_thread;

/* A stretch of pages. */
struct sti_mapping {
    uintptr_t begin;
    uintptr_t end;
    struct sti_mapped *owner;
    enum sti_mapping_kind kind;
    bool continues; /* it has been cut off the one below it, or is mapped as one with that */
};

/* How many there are. */
extern atomic_size_t sti_mapping_count __attribute__((visibility("hidden")));

/* Whether any could be touched: in part of a process (process.h) none is followed, as the lock may be held for ever.
 * relaxed: the thread that touches one has its address from the one that made it. */
static inline bool sti_mapping_any(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_mapping_count, memory_order_relaxed) != 0, 0) &&
           !sti_process_is_partial();
}

/* Around all that follows up to the owners. False: there is no memory for what may be noted between the two, which is
 * one mapping in the place of others, and one more that is cut; or a signal handler has found this thread in here. */
bool sti_mapping_lock(void);
void sti_mapping_unlock(void);

/* --- The table. Any thread, with the lock; what is found is there until something is put in or cut. --- */

/* The highest of those that overlap these addresses; NULL: none does. So the next one down is the highest of those
 * between the same begin and its own. */
struct sti_mapping *sti_mapping_last(uintptr_t begin, uintptr_t end);

/* Put the stretch into the table. What that says of the same addresses is not true any more, and goes: the kernel gives
 * none out twice. */
void sti_mapping_put(uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind, struct sti_mapped *owner);

/* The same, as a part of the mapping that ends where it begins. */
void sti_mapping_put_behind(uintptr_t begin, uintptr_t end);

/* Have stretches end at these two addresses. */
void sti_mapping_cut(uintptr_t begin, uintptr_t end);

/* What was cut where these addresses begin, end or between them, and is of the same kind and the same owner, is one
 * again: so there are no more records than the system has of its own. */
void sti_mapping_join(uintptr_t begin, uintptr_t end);

void sti_mapping_set_kind(struct sti_mapping *mapping, enum sti_mapping_kind kind);

/* These addresses, at both of which stretches end, are nobody's. */
void sti_mapping_forget(uintptr_t begin, uintptr_t end);

/* Between these addresses, at both of which stretches end, somebody has put pages of this kind in the place of what was
 * there. What was in the record stays whose it was, and what was not the process's: so an allocator of the process's
 * takes parts of its reservation into use from inside a task, and no rollback leaves a hole in it. */
void sti_mapping_fill(uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind);

/* Is something between them not mapped, by anybody? Without the lock, too. */
bool sti_mapping_has_hole(uintptr_t begin, uintptr_t end);

/* Does the address lie in a heap of this scope's or of one around it? Thread of the scope, without the lock. */
bool sti_task_has(const struct sti_scope *scope, uintptr_t address);

/* --- What one scope has mapped, or a share of a group while nothing runs there; NULL is nothing. Thread of the scope,
 * outside of it, and without the lock. --- */

/* The scope's own, made at its first mapping; NULL: out of memory. */
struct sti_mapped *sti_mapped_of(struct sti_scope *scope);

/* Bytes that count. Never too few; what another thread unmaps at this moment may still count. */
size_t sti_mapped_held(const struct sti_mapped *mapped);

/* As lists of single blocks, for the scan of roots (heap.h), in front of this list: to look at; or to unmap, as
 * sti_heap_end does, and nobody's from now on. Without memory for the lists they are left as they are. */
struct sti_heap *sti_mapped_list(const struct sti_mapped *mapped, struct sti_heap *list);
struct sti_heap *sti_mapped_take(struct sti_mapped **mapped, struct sti_heap *list);
void sti_mapped_drop_list(struct sti_heap *list, const struct sti_heap *end);

/* It is the outer scope's from now on; NULL: nobody's. */
void sti_mapped_commit(struct sti_mapped **mapped, struct sti_mapped **outer);

#endif
