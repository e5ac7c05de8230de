/* SPDX-License-Identifier: MIT
 *
 * Mappings in a given place: whose they are. */
#ifndef STI_ALLOC_ROLLBACK_PLACE_H
#define STI_ALLOC_ROLLBACK_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "mapping.h"

/* --- mmap with MAP_FIXED and mremap with MREMAP_FIXED put pages in the place of whatever is there: mappings of tasks,
 * which the record knows, mappings of the process's, which it does not, and nothing. What is in the place of somebody's
 * is his from then on: so an allocator of the process's takes parts of its reservation into use from inside a task, and
 * no rollback leaves a hole in it. What was free is the task's, and has to be found out before: afterwards it looks
 * like the process's. Any thread, with the lock of the record, in which stretches end at both ends of the place. */

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

#endif
