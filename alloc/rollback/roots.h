/* SPDX-License-Identifier: MIT
 *
 * The scan of roots before a heap is destroyed; include/stint/memory.h says what it is for. Thread of the scope only,
 * outside its scope. */
#ifndef STI_ALLOC_ROLLBACK_ROOTS_H
#define STI_ALLOC_ROLLBACK_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_heap;

/* A root that points into a live block. */
struct sti_root {
    uintptr_t address;  /* of the variable; 0 for a specific value */
    uintptr_t offset;   /* in its module or its thread-local block; the key of a specific value */
    const char *module; /* as stint_root.module */
    const char *where;  /* as stint_root.where */
};

/* Whether this rollback is one that scans. */
bool sti_roots_scan_due(void);

/* Whether any is. */
bool sti_roots_are_scanned(void);

/* Make the maps of all heaps of the list and mark the blocks that a root leads to: those it points into, and those of
 * the list that a marked one points into. Pin heaps of which nothing can be said. Report the roots under the name of
 * the task. Returns the bytes in blocks that must stay. */
size_t sti_roots_pin(struct sti_heap *list, const char *task);

/* Tell the user's function, once a root, and whenever the bytes in all that is kept pass the limit, and double. */
void sti_roots_report(const struct sti_root *root, size_t retained, size_t all, const char *task);

#endif
