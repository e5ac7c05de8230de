/* SPDX-License-Identifier: MIT
 *
 * The map of a heap; see heap_map.h. Single blocks of a nursery are an area each. */
#include "heap_map.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "heap.h"

struct sti_heap_area {
    uintptr_t begin;
    uintptr_t end; /* of what pointers may point to */
    size_t block_size;
    size_t blocks;
    size_t first; /* the bit of its first block */
};

/* areas is NULL while they are only counted. */
static void heap_map_add_area(struct sti_heap_map *map, struct sti_heap_area area)
{
    area.first = map->blocks;
    if (map->areas != NULL)
        map->areas[map->count] = area;
    map->count++;
    map->blocks += area.blocks;
}

static void list_area(const struct sti_backend_area *area, void *argument)
{
    heap_map_add_area(argument, (struct sti_heap_area){ .begin = area->begin,
                                                        .end = area->end,
                                                        .block_size = area->block_size,
                                                        .blocks = (area->end - area->begin) / area->block_size });
}

static void list_areas(struct sti_heap *heap)
{
    struct sti_heap_map *map = &heap->map;
    map->count = 0;
    map->blocks = 0;
    if (heap->backend != NULL) {
        sti_backend_theap_areas(heap->theap, list_area, map);
        return;
    }
    for (size_t i = 0; i < heap->count; i++) {
        uintptr_t block = (uintptr_t)heap->singles[i].block;
        size_t size = heap->singles[i].size;
        size_t reach = heap->reach != 0 && heap->reach < size ? heap->reach : size;
        heap_map_add_area(
            map, (struct sti_heap_area){ .begin = block, .end = block + reach, .block_size = size, .blocks = 1 });
    }
}

static int areas_by_address(const void *left, const void *right)
{
    const struct sti_heap_area *a = left;
    const struct sti_heap_area *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* libc's sort may allocate: for nobody, and at no sample point, as this may be in the midst of one. */
static void areas_sort(struct sti_heap_area *areas, size_t count)
{
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    qsort(areas, count, sizeof *areas, areas_by_address);
    sti_thread_counted = counted;
}

/* Blocks that others free between the two lists make the second one shorter. */
bool sti_heap_map_make(struct sti_heap *heap)
{
    struct sti_heap_map *map = &heap->map;
    sti_heap_map_drop(map);
    map->held = sti_heap_bytes(heap);
    list_areas(heap);
    map->areas = sti_process_malloc((map->count + 1) * sizeof *map->areas);
    if (map->areas == NULL)
        return false;
    list_areas(heap);
    areas_sort(map->areas, map->count);
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

bool sti_heap_map_covers(const struct sti_heap *heap, uintptr_t address)
{
    return area_around(&heap->map, address) != NULL;
}

static size_t index_of(const struct sti_heap_area *area, uintptr_t address)
{
    return area->first + (address - area->begin) / area->block_size;
}

static bool is_set(const uint64_t *bits, size_t bit)
{
    return (bits[bit / 64] >> bit % 64 & 1) != 0;
}

static void set_bit(uint64_t *bits, size_t bit)
{
    bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

struct marking {
    struct sti_heap_map *map;
    const struct sti_heap_area *area; /* of the last block: the next one most often lies there too, */
    uintptr_t at;                     /* not far behind it */
    size_t bit;
};

static bool mark_block(void *block, uintptr_t page, void *argument)
{
    struct marking *marking = argument;
    if (marking->area == NULL || marking->area->begin != page || marking->at > (uintptr_t)block) {
        marking->area = area_around(marking->map, page);
        marking->at = page;
        marking->bit = marking->area != NULL ? marking->area->first : 0;
    }
    if (marking->area == NULL)
        return true;
    for (; marking->at < (uintptr_t)block; marking->at += marking->area->block_size) /* quicker than a division */
        marking->bit++;
    set_bit(marking->map->live, marking->bit);
    return true;
}

static bool heap_map_find_live(struct sti_heap *heap)
{
    struct sti_heap_map *map = &heap->map;
    size_t words = map->blocks / 64 + 1;
    map->live = sti_process_calloc(2 * words, sizeof *map->live);
    if (map->live == NULL)
        return false;
    map->marked = map->live + words;
    struct marking marking = { .map = map, .area = NULL };
    if (heap->backend != NULL)
        sti_backend_theap_blocks(heap->theap, mark_block, &marking);
    else
        memset(map->live, 0xff, words * sizeof *map->live);
    return true;
}

bool sti_heap_map_make_whole(struct sti_heap *heap)
{
    return sti_heap_map_make(heap) && heap_map_find_live(heap);
}

enum sti_heap_found sti_heap_map_mark(struct sti_heap *heap, uintptr_t address, struct sti_heap_block *block)
{
    struct sti_heap_map *map = &heap->map;
    if (address - map->begin >= map->end - map->begin)
        return STI_HEAP_NOTHING;
    const struct sti_heap_area *area = area_around(map, address);
    if (area == NULL)
        return STI_HEAP_NOTHING;
    if (map->live == NULL && !heap_map_find_live(heap))
        return STI_HEAP_UNKNOWN;
    size_t index = index_of(area, address);
    if (!is_set(map->live, index))
        return STI_HEAP_NOTHING;
    if (is_set(map->marked, index))
        return STI_HEAP_MARKED;
    set_bit(map->marked, index);
    map->marked_bytes += area->block_size;
    *block = (struct sti_heap_block){ .begin = area->begin + (index - area->first) * area->block_size,
                                      .size = area->block_size,
                                      .is_mapped = heap->is_mapped };
    return STI_HEAP_NEW;
}

void sti_heap_map_visit(struct sti_heap *heap, sti_heap_block_fn *visit, void *arg)
{
    const struct sti_heap_map *map = &heap->map;
    if (map->areas == NULL || (map->live == NULL && !heap_map_find_live(heap)))
        return;
    for (const struct sti_heap_area *area = map->areas; area < map->areas + map->count; area++) {
        for (size_t i = 0; i < area->blocks; i++) {
            if (is_set(map->live, area->first + i))
                visit(area->begin + i * area->block_size, area->block_size,
                      heap->pinned || is_set(map->marked, area->first + i), arg);
        }
    }
}

void sti_heap_map_drop(struct sti_heap_map *map)
{
    sti_process_free(map->areas);
    sti_process_free(map->live);
    *map = (struct sti_heap_map){ .areas = NULL };
}
