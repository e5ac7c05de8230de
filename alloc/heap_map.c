/* SPDX-License-Identifier: MIT
 *
 * The map of a heap; see heap_map.h. Single blocks of a nursery are an area each. */
#include "heap_map.h"

#include <stdlib.h>

#include "heap.h"
#include "process.h"

struct sti_heap_area {
    uintptr_t begin;
    uintptr_t end;
    size_t block_size;
    size_t first; /* the bit of its first block */
};

/* areas is NULL while they are only counted. */
static void list_area(uintptr_t begin, uintptr_t end, size_t block_size, void *argument)
{
    struct sti_heap_map *map = argument;
    if (map->areas != NULL)
        map->areas[map->count] =
            (struct sti_heap_area){ .begin = begin, .end = end, .block_size = block_size, .first = map->blocks };
    map->count++;
    map->blocks += (end - begin) / block_size;
}

static void list_areas(struct sti_heap *heap)
{
    struct sti_heap_map *map = &heap->map;
    map->count = 0;
    map->blocks = 0;
    if (heap->backend != NULL) {
        sti_backend_heap_areas(heap->backend, list_area, map);
        return;
    }
    for (size_t i = 0; i < heap->count; i++) {
        uintptr_t block = (uintptr_t)sti_single_block(&heap->singles[i]);
        size_t size = heap->singles[i].size;
        if (block != 0)
            list_area(block, block + size, size, map);
    }
}

static int by_address(const void *left, const void *right)
{
    const struct sti_heap_area *a = left;
    const struct sti_heap_area *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Nothing is made in a heap whose task has ended: as many bytes are the same blocks. */
static bool is_true(struct sti_heap *heap)
{
    if (heap->map.areas == NULL || heap->backend == NULL)
        return false;
    if (!heap->is_ownerless)
        sti_backend_theap_collect(sti_backend_heap_theap(heap->backend), false);
    return sti_heap_bytes(heap) == heap->map.held;
}

/* Blocks that others free between the two lists make the second one shorter. */
bool sti_heap_map_renew(struct sti_heap *heap)
{
    struct sti_heap_map *map = &heap->map;
    if (is_true(heap))
        return true;
    sti_heap_map_drop(map);
    list_areas(heap);
    map->areas = sti_process_malloc((map->count + 1) * sizeof *map->areas);
    if (map->areas == NULL)
        return false;
    list_areas(heap);
    qsort(map->areas, map->count, sizeof *map->areas, by_address);
    map->held = sti_heap_bytes(heap);
    map->begin = map->count > 0 ? map->areas[0].begin : 0;
    map->end = map->count > 0 ? map->areas[map->count - 1].end : 0;
    return true;
}

static const struct sti_heap_area *area_around(const struct sti_heap_map *map, uintptr_t address)
{
    size_t low = 0;
    size_t high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct sti_heap_area *area = &map->areas[middle];
        if (address < area->begin)
            high = middle;
        else if (address >= area->end)
            low = middle + 1;
        else
            return area;
    }
    return NULL;
}

static size_t bit_of(const struct sti_heap_area *area, uintptr_t address)
{
    return area->first + (address - area->begin) / area->block_size;
}

struct marking {
    struct sti_heap_map *map;
    const struct sti_heap_area *area; /* of the last block: the next one most often lies there too */
};

static void mark_block(void *block, uintptr_t page, void *argument)
{
    struct marking *marking = argument;
    if (marking->area == NULL || marking->area->begin != page)
        marking->area = area_around(marking->map, page);
    if (marking->area == NULL)
        return;
    size_t bit = bit_of(marking->area, (uintptr_t)block);
    marking->map->live[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool mark_blocks(struct sti_heap_map *map, sti_backend_heap *heap)
{
    struct marking marking = { .map = map, .area = NULL };
    map->live = sti_process_calloc(map->blocks / 64 + 1, sizeof *map->live);
    if (map->live == NULL)
        return false;
    sti_backend_heap_blocks(heap, mark_block, &marking);
    return true;
}

bool sti_heap_map_is_live(struct sti_heap *heap, uintptr_t address)
{
    struct sti_heap_map *map = &heap->map;
    if (address - map->begin >= map->end - map->begin)
        return false;
    const struct sti_heap_area *area = area_around(map, address);
    if (area == NULL)
        return false;
    if (heap->backend == NULL || heap->is_ownerless || (map->live == NULL && !mark_blocks(map, heap->backend)))
        return true;
    size_t bit = bit_of(area, address);
    return (map->live[bit / 64] >> bit % 64 & 1) != 0;
}

void sti_heap_map_drop(struct sti_heap_map *map)
{
    sti_process_free(map->areas);
    sti_process_free(map->live);
    *map = (struct sti_heap_map){ .areas = NULL };
}
