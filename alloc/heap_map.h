/* SPDX-License-Identifier: MIT
 *
 * The map of a heap: asked of an address, does it lie in a live block? Thread of the heap only; of
 * one whose thread has ended, any one thread.
 *
 * Made from one walk of the heap's areas, and at the first address that falls into one, one walk of its blocks; so many
 * addresses cost hardly more than one. It is true until a block of the heap is made or freed. */
#ifndef STI_ALLOC_HEAP_MAP_H
#define STI_ALLOC_HEAP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

struct sti_heap_map {
    struct sti_heap_area *areas; /* sorted; NULL: there is no map */
    size_t count;
    size_t held;     /* by the heap when the map was made */
    size_t blocks;   /* for which the areas have room */
    uint64_t *live;  /* a bit for each of them; NULL until an address is asked for */
    uintptr_t begin; /* of all areas */
    uintptr_t end;
};

struct sti_heap;

/* Make the heap's map, or keep the one that there is when no block has been made or freed since; all bytes of it are 0 the
 * first time. False: out of memory, and there is no map. */
bool sti_heap_map_renew(struct sti_heap *heap);

/* There must be a map. Every address in an area counts as live where there is no memory for the bits; and of a heap whose
 * thread has ended, as its pages have no owner who could say. */
bool sti_heap_map_is_live(struct sti_heap *heap, uintptr_t address);

void sti_heap_map_drop(struct sti_heap_map *map);

#endif
