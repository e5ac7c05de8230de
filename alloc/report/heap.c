/* SPDX-License-Identifier: MIT
 *
 * What a task had taken: its blocks by size, what they begin with, and the largest; see report.h. Thread of the scope
 * only.
 *
 * mimalloc tells of each page how many blocks of which size live there, at some nanoseconds a page. Which of them live
 * it tells only for all blocks of a heap, one by one; that is what takes time, and the search for lost blocks (lost.c)
 * does it for as long as it may. So what blocks contain is read where a page has no free block; of other pages, where
 * the search comes across one. */
#include "heap.h"
#include "lost.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/clock.h"
#include "alloc/base/lasting.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/nursery.h"

#define WORDS 4 /* of a block that are looked at */
#define LOOKED_AT ((size_t)WORDS * sizeof(uintptr_t))
#define SHORTEST_STRING 3          /* characters */
#define LOOKS ((size_t)512)        /* at blocks of full pages */
#define LOOKS_COPIED ((size_t)128) /* where each is a system call */
#define ADDRESSES_END ((uintptr_t)1 << 47)
#define FIRST_CAPACITY 256

/* --- What a block begins with. */

const void *sti_report_copy(struct sti_report_view *view, uintptr_t address, size_t *wanted, size_t ahead)
{
    if (*wanted > sizeof view->words)
        *wanted = sizeof view->words;
    if (address < view->begin || address + *wanted > view->begin + view->size) {
        long copied = sti_readable_copy(view->words, address, ahead < sizeof view->words ? ahead : sizeof view->words);
        view->begin = address;
        view->size = copied > 0 ? (size_t)copied : 0;
    }
    if (*wanted > view->size - (address - view->begin))
        *wanted = view->size - (address - view->begin);
    return *wanted > 0 ? (const char *)view->words + (address - view->begin) : NULL;
}

static bool is_printable(char c)
{
    return (c >= ' ' && c <= '~') || c == '\t' || c == '\n';
}

static bool read_string(const char *block, size_t size, struct sti_report_contents *contents)
{
    size_t room = size < STI_REPORT_TEXT - 1 ? size : STI_REPORT_TEXT - 1;
    size_t length = 0;
    while (length < room && is_printable(block[length]))
        length++;
    if (length < SHORTEST_STRING || (length < room && block[length] != '\0'))
        return false;
    contents->kind = STI_REPORT_STRING;
    memcpy(contents->text, block, length);
    contents->text[length] = '\0';
    return true;
}

static bool leads_into_module(uintptr_t word)
{
    struct dl_find_object found;
    return word >= UINT16_MAX && word < ADDRESSES_END && _dl_find_object((void *)word, &found) == 0;
}

/* Reads what the task may just be writing, on this thread, and what it never wrote. */
STI_CALLER_UNINSTRUMENTED static struct sti_report_contents contents_of(const void *block, size_t size)
{
    struct sti_report_contents contents = { .kind = STI_REPORT_OTHER };
    uintptr_t words[WORDS];
    size_t count = size / sizeof *words < WORDS ? size / sizeof *words : WORDS;
    uintptr_t all = 0;
    if (read_string(block, size, &contents))
        return contents;
    memcpy(words, block, count * sizeof *words);
    for (size_t i = 0; i < count; i++) {
        all |= words[i];
        if (!leads_into_module(words[i]))
            continue;
        contents = (struct sti_report_contents){ .kind = STI_REPORT_POINTER, .word = (unsigned)i, .address = words[i] };
        return contents;
    }
    if (all == 0)
        contents.kind = STI_REPORT_ZEROS;
    return contents;
}

static bool is_same(const struct sti_report_contents *a, const struct sti_report_contents *b)
{
    return a->kind == b->kind && a->address == b->address && a->word == b->word;
}

/* What is of no kind is what is left of those that were looked at. */
static void look_at(struct sti_report_class *class, struct sti_report_view *view, uintptr_t block, size_t ahead)
{
    size_t size = class->size < LOOKED_AT ? class->size : LOOKED_AT;
    const void *words = sti_report_read(view, block, &size, ahead);
    if (words == NULL)
        return;
    struct sti_report_contents contents = contents_of(words, size);
    class->looked_at++;
    if (contents.kind == STI_REPORT_OTHER)
        return;
    size_t i = 0;
    while (i < class->content_count && !is_same(&class->contents[i], &contents))
        i++;
    if (i == STI_REPORT_CONTENTS)
        return;
    if (i == class->content_count)
        class->contents[class->content_count++] = contents;
    class->contents[i].count++;
}

/* --- Size classes. */

/* The size that a block has to be larger than to have come to this class. */
static size_t next_smaller(size_t size)
{
    size_t low = 0;
    size_t high = size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sti_backend_block_size(middle) < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

/* NULL: there is none. */
static struct sti_report_class *class_of(struct sti_report_heap *heap, size_t size)
{
    size_t low = 0;
    size_t high = heap->class_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (heap->classes[middle].size < size)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < heap->class_count && heap->classes[low].size == size)
        return &heap->classes[low];
    if (heap->class_count == STI_REPORT_CLASSES)
        return low < heap->class_count ? &heap->classes[low] : &heap->classes[low - 1];
    struct sti_report_class *class = &heap->classes[low];
    memmove(class + 1, class, (heap->class_count++ - low) * sizeof *class);
    *class = (struct sti_report_class){ .size = size, .above = next_smaller(size) };
    return class;
}

static void sum_up(struct sti_report_heap *heap, const struct sti_report_areas *areas)
{
    for (size_t i = 0; i < areas->count; i++) {
        const struct sti_report_area *area = &areas->list[i];
        struct sti_report_class *class = class_of(heap, area->size);
        class->blocks += area->used;
        class->bytes += area->used * area->size;
        heap->blocks += area->used;
        heap->bytes += area->used * area->size;
    }
}

static bool is_full(const struct sti_report_area *area)
{
    return area->used >= (area->end - area->begin) / area->size;
}

/* Spread over the page. */
static void look_into(struct sti_report_heap *heap, struct sti_report_view *view, const struct sti_report_area *area,
                      size_t looks)
{
    struct sti_report_class *class = class_of(heap, area->size);
    size_t step = area->used / looks;
    for (size_t i = 0; i < looks && class->looked_at < STI_REPORT_LOOKS; i++)
        look_at(class, view, area->begin + (i * step + i % (step > 1 ? step : 1)) * area->size, LOOKED_AT);
}

static void look_into_full_pages(struct sti_report_heap *heap, const struct sti_report_areas *areas)
{
    size_t all = areas->view == NULL ? LOOKS : LOOKS_COPIED;
    size_t each = areas->count > 0 ? all / areas->count + 1 : 1;
    size_t every = areas->count / all + 1;
    for (size_t i = 0; i < areas->count; i += every) {
        const struct sti_report_area *area = &areas->list[i];
        if (is_full(area))
            look_into(heap, areas->view, area, each < area->used ? each : area->used);
    }
}

/* By the search. */
static void look_at_live(struct stint_report *report, struct sti_report_view *view, const struct sti_report_area *area,
                         uintptr_t block)
{
    if (is_full(area))
        return;
    struct sti_report_class *class = class_of(&report->heap, area->size);
    if (class->looked_at < STI_REPORT_LOOKS)
        look_at(class, view, block, area->end - block);
}

/* --- The largest blocks. */

static void insert(struct sti_report_heap *heap, size_t size, uintptr_t address)
{
    size_t at = heap->largest_count;
    while (at > 0 && heap->largest[at - 1].size < size)
        at--;
    if (at == STI_REPORT_LARGEST)
        return;
    size_t moved = heap->largest_count - at;
    if (heap->largest_count < STI_REPORT_LARGEST)
        heap->largest_count++;
    else
        moved--;
    memmove(&heap->largest[at + 1], &heap->largest[at], moved * sizeof heap->largest[0]);
    heap->largest[at] = (struct sti_report_block){ .size = size, .address = address };
}

static void find_largest(struct sti_report_heap *heap, const struct sti_report_areas *areas)
{
    for (size_t i = 0; i < areas->count; i++) {
        const struct sti_report_area *area = &areas->list[i];
        size_t smallest = heap->largest_count < STI_REPORT_LARGEST ? 0 : heap->largest[STI_REPORT_LARGEST - 1].size;
        for (size_t j = 0; j < area->used && j < STI_REPORT_LARGEST && area->size > smallest; j++)
            insert(heap, area->size, is_full(area) ? area->begin + j * area->size : 0);
    }
    for (size_t i = 0; i < heap->largest_count; i++) {
        struct sti_report_block *block = &heap->largest[i];
        size_t size = block->size < LOOKED_AT ? block->size : LOOKED_AT;
        const void *words = block->address != 0 ? sti_report_read(areas->view, block->address, &size, size) : NULL;
        if (words != NULL)
            block->contents = contents_of(words, size);
    }
}

/* --- The areas. */

static void add(struct sti_report_areas *areas, uintptr_t begin, uintptr_t end, size_t size, size_t used)
{
    if (areas->count == areas->capacity) {
        size_t larger = areas->capacity == 0 ? FIRST_CAPACITY : 2 * areas->capacity;
        struct sti_report_area *list = sti_process_realloc(areas->list, larger * sizeof *list);
        if (list == NULL) {
            areas->failed = true;
            return;
        }
        areas->list = list;
        areas->capacity = larger;
    }
    areas->list[areas->count++] =
        (struct sti_report_area){ .begin = begin, .end = end, .size = size, .used = used, .first = areas->blocks };
    areas->blocks += (end - begin) / size;
}

static void add_singles(struct sti_report_areas *areas, const struct sti_heap *singles)
{
    for (size_t i = 0; singles != NULL && i < singles->count; i++) {
        uintptr_t block = (uintptr_t)singles->singles[i].block;
        add(areas, block, block + singles->singles[i].size, singles->singles[i].size, 1);
    }
}

static void add_area(const struct sti_backend_area *area, void *areas)
{
    add(areas, area->begin, area->end, area->block_size, area->used);
}

static void add_heaps(struct stint_report *report, struct sti_report_areas *areas, const struct sti_scope *scope)
{
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer) {
        for (const struct sti_heap *heap = at->heaps; heap != NULL; heap = heap->next) {
            if (heap->backend != NULL)
                sti_backend_theap_areas(heap->theap, add_area, areas);
        }
        report->heap.libc_bytes += sti_libc_heap_held(at);
        report->heap.mapped_bytes += sti_mapped_held(at->mapped);
    }
}

static int by_address(const void *left, const void *right)
{
    const struct sti_report_area *a = left;
    const struct sti_report_area *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static bool is_sorted(const struct sti_report_areas *areas)
{
    size_t i = 1;
    while (i < areas->count && areas->list[i - 1].begin < areas->list[i].begin)
        i++;
    return i >= areas->count;
}

/* Mostly it is: mimalloc goes from the lowest page to the highest, and a task's first blocks lie below. libc's sort may
 * allocate: for nobody. */
static void sort(const struct sti_report_areas *areas)
{
    if (is_sorted(areas))
        return;
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    qsort(areas->list, areas->count, sizeof *areas->list, by_address);
    sti_thread_counted = counted;
}

static void look_into_blocks(struct stint_report *report, struct sti_scope *scope, const struct sti_report_areas *areas,
                             const struct sti_heap *singles)
{
    struct sti_report_index index;
    look_into_full_pages(&report->heap, areas);
    find_largest(&report->heap, areas);
    if (!sti_report_areas_index(&index, areas))
        return;
    sti_report_take_holders(report, scope, &index);
    sti_report_search(report, scope, &index, singles, look_at_live);
    sti_process_free(index.firsts);
}

/* False: out of memory. */
static bool make_view(struct sti_report_areas *areas)
{
    if (sti_readable_heaps())
        return true;
    areas->view = sti_process_malloc(sizeof *areas->view);
    if (areas->view == NULL)
        return false;
    areas->view->begin = areas->view->size = 0;
    return true;
}

/* Of a part of it nobody would know what it is of. */
static void forget(struct sti_report_heap *heap)
{
    heap->is_taken = false;
    heap->libc_bytes = heap->mapped_bytes = 0;
}

void sti_report_take_heap(struct stint_report *report, struct sti_scope *scope)
{
    uint64_t begin = sti_clock_now();
    struct sti_report_areas areas = { .view = NULL };
    struct sti_heap *singles = sti_nursery_list_inwards(scope->thread, scope);
    report->heap.is_taken = true;
    add_singles(&areas, singles);
    add_heaps(report, &areas, scope);
    if (areas.failed) {
        forget(&report->heap);
    } else if (areas.count > 0) {
        sort(&areas);
        sum_up(&report->heap, &areas);
        if (make_view(&areas))
            look_into_blocks(report, scope, &areas, singles);
    }
    sti_process_free(areas.view);
    sti_process_free(areas.list);
    sti_process_free(singles);
    report->heap.took_ns = sti_clock_now() - begin;
}
