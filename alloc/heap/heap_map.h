/* SPDX-License-Identifier: MIT
 *
 * The map of a heap that is about to be rolled back: does an address lie in a live block, and which blocks are marked?
 * Thread of the heap only.
 *
 * Made from one walk of the heap's areas, and at the first address that falls into one, one walk of its blocks; so many
 * addresses cost hardly more than one. It is true until a block of the heap is made or freed. */
#ifndef STI_ALLOC_HEAP_HEAP_MAP_H
#define STI_ALLOC_HEAP_HEAP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_heap_map {
    struct sti_heap_area *areas; /* sorted; NULL: there is no map */
    size_t count;
    size_t held;      /* by the heap when the map was made */
    size_t blocks;    /* for which the areas have room */
    uint64_t *live;   /* a bit for each of them, NULL until an address is asked for; */
    uint64_t *marked; /* behind those, another one */
    size_t marked_bytes;
    uintptr_t begin; /* of all areas */
    uintptr_t end;
};

struct sti_heap;

/* Make the heap's map, with no mark; all bytes of it are 0 before. False: out of memory, and there is no map. */
bool sti_heap_map_make(struct sti_heap *heap);

/* The same, and it is known what lives. */
bool sti_heap_map_make_whole(struct sti_heap *heap);

/* Does the address lie in an area of the heap, which has a map? */
bool sti_heap_map_covers(const struct sti_heap *heap, uintptr_t address);

/* A live block, as far as mimalloc lets one have it. */
struct sti_heap_block {
    uintptr_t begin;
    size_t size;
    bool is_mapped; /* parts of it may be out of reach */
};

enum sti_heap_found {
    STI_HEAP_NOTHING, /* the address lies in no live block */
    STI_HEAP_MARKED,  /* in one that was marked already */
    STI_HEAP_NEW,     /* in this one, which is marked now */
    STI_HEAP_UNKNOWN, /* in one, perhaps; there is no memory to say */
};

/* There must be a map. */
enum sti_heap_found sti_heap_map_mark(struct sti_heap *heap, uintptr_t address, struct sti_heap_block *block);

/* Each live block of a heap with marks, or that is pinned: then each counts as marked. What it is pinned for may be
 * that there is no map, or no memory to say what lives: then there is none to visit. */
typedef void sti_heap_block_fn(uintptr_t block, size_t size, bool is_marked, void *arg);
void sti_heap_map_visit(struct sti_heap *heap, sti_heap_block_fn *visit, void *arg);

void sti_heap_map_drop(struct sti_heap_map *map);

#endif
