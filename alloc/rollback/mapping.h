/* SPDX-License-Identifier: MIT
 *
 * What tasks have mapped: pages that they asked of the system itself. */
#ifndef STI_ALLOC_ROLLBACK_MAPPING_H
#define STI_ALLOC_ROLLBACK_MAPPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Mappings. The overrides (charge/override_mapping.c) note each one that a task makes; a rollback unmaps what is
 * left, a commit forgets it. Any thread may unmap, protect or move any part of any of them, so all lie in one tree by
 * their addresses, under one lock: the kernel has one for the process's mappings too, and holds it longer.
 *
 * What counts as memory is what the kernel would count where it allows no more memory than there is
 * (Documentation/mm/overcommit-accounting.rst, mode 2): private pages that are or once were writable, and shared ones
 * that no file is behind. What is only reserved (PROT_NONE) or only read does not, until it is made writable. */

enum sti_mapping_kind {
    STI_MAPPING_FREE,     /* never counts: a file's pages, shared or only to be read, and what would be where it lies */
    STI_MAPPING_READ,     /* a file's, private: counts once it is made writable */
    STI_MAPPING_RESERVED, /* likewise, and there is nothing in it: whoever uses it knows where it begins */
    STI_MAPPING_CHARGED,  /* counts */
    STI_MAPPING_CLAIMED,  /* free, until the call that is under way has filled it: pages.h */
    STI_MAPPING_DESCRIPTOR, /* no pages, but a descriptor: descriptor.h. A rollback closes it, */
    STI_MAPPING_AUDITED,    /* or does not */
    STI_MAPPING_PROTECTED,  /* no mapping either, but pages of a heap that the task has protected: pages.h */
};

static inline bool sti_mapping_may_count(enum sti_mapping_kind kind)
{
    return kind == STI_MAPPING_READ || kind == STI_MAPPING_RESERVED;
}

struct sti_heap;
struct sti_mapped;
struct sti_scope;
struct sti_thread;

/* A stretch of pages. */
struct sti_mapping {
    uintptr_t begin;
    uintptr_t end;
    enum sti_mapping_kind kind;
    bool continues; /* it has been cut off the one before it, or is mapped as one with that */
    struct sti_mapped *owner;
    uint64_t owner_id;
    struct sti_mapping *next; /* of the owner's */
    struct sti_mapping **link;
    struct sti_mapping *left; /* in the tree: those below it */
    struct sti_mapping *right;
};

/* --- The tree. Any thread. --- */

/* How many there are. */
extern atomic_size_t sti_mapping_count __attribute__((visibility("hidden")));

/* Whether any could be touched. relaxed: the thread that touches one has its address from the one that made it. */
static inline bool sti_mapping_any(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_mapping_count, memory_order_relaxed) != 0, 0);
}

/* Around all that follows, unless it says otherwise. False: a signal handler has found this thread in here, and nothing
 * can be noted now. */
bool sti_mapping_lock(void);
void sti_mapping_unlock(void);

/* A record without pages, for later; NULL: out of memory. It is dropped, or becomes part of the tree. Without the
 * lock, as all that allocates or frees is but for cutting. */
struct sti_mapping *sti_mapping_new(void);
void sti_mapping_drop(struct sti_mapping *mapping);

/* The scope's own, made at its first mapping; NULL: out of memory. Thread of the scope, without the lock. */
struct sti_mapped *sti_mapped_of(struct sti_scope *scope);

/* Put the stretch into the tree. What the tree says of the same addresses is not true any more, and goes: the kernel
 * gives none out twice. */
void sti_mapping_put(struct sti_mapping *mapping, uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind,
                     struct sti_mapped *owner);

/* Have stretches end at these two addresses. False: out of memory. */
bool sti_mapping_cut(uintptr_t begin, uintptr_t end);

/* What was cut where these addresses begin, end or between them, and is of the same kind and the same owner, is one
 * again: so there are no more records than the system has of its own, but for those that pages have been charged
 * for. */
void sti_mapping_join(uintptr_t begin, uintptr_t end);

/* The lowest of those that overlap these addresses; NULL: none does. */
struct sti_mapping *sti_mapping_first(uintptr_t begin, uintptr_t end);

/* What lies behind it is new, and a part of it. */
void sti_mapping_grow(struct sti_mapping *mapping, uintptr_t end);

void sti_mapping_set_kind(struct sti_mapping *mapping, enum sti_mapping_kind kind);
void sti_mapping_set_owner(struct sti_mapping *mapping, struct sti_mapped *owner);

/* Take it, with these addresses cut out, off the tree, for its new place; or take all of them off, as a list by next,
 * from the highest to the lowest. */
void sti_mapping_take(struct sti_mapping *mapping);
struct sti_mapping *sti_mapping_take_all(uintptr_t begin, uintptr_t end);

/* Drop a list that was taken. Without the lock. */
void sti_mapping_drop_all(struct sti_mapping *list);

/* --- What one scope has mapped, of which NULL is nothing. Thread of the scope, outside of it, and without the lock. */

/* Bytes that count. Never too few; what another thread unmaps at this moment may still count. */
size_t sti_mapped_held(const struct sti_mapped *mapped);

/* It has mapped nothing, or nothing of it is left. */
bool sti_mapped_is_empty(const struct sti_mapped *mapped);

/* As lists of single blocks, for the scan of roots (heap.h), in front of this list: to look at; or to unmap, as
 * sti_heap_destroy does, and nobody's from now on. Without memory for the lists they are left as they are. */
struct sti_heap *sti_mapped_list(const struct sti_mapped *mapped, struct sti_heap *list);
struct sti_heap *sti_mapped_take(struct sti_mapped **mapped, struct sti_heap *list);
void sti_mapped_drop_list(struct sti_heap *list, const struct sti_heap *end);

/* Those of these kinds, off the record, as a list by next. */
struct sti_mapping *sti_mapped_take_kinds(struct sti_mapped *mapped, enum sti_mapping_kind first,
                                          enum sti_mapping_kind last);

/* It is the outer scope's from now on; NULL: nobody's. */
void sti_mapped_commit(struct sti_mapped **mapped, struct sti_mapped **outer);

/* It waits at a share of a group (subtask.h), whose thread this is or is not while nothing runs there. */
void sti_mapped_set_thread(struct sti_mapped *mapped, const struct sti_thread *thread);

/* The thread ends, in scopes that will never end: nothing of them may be touched any more. */
void sti_mapped_end_thread(const struct sti_thread *thread);

#endif
