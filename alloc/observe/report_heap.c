/* SPDX-License-Identifier: MIT
 *
 * What a task had taken: its blocks by size, what they begin with, the largest, and which callstacks hold them; see
 * report.h. Thread of the scope only; nothing is made or freed there meanwhile.
 *
 * mimalloc tells of each page how many blocks of which size live there, at some nanoseconds a page. Which of them live
 * it tells only for all blocks of a page at once, and that is what takes time. So what blocks begin with is read where
 * a page has no free block; of other pages, only as far as a walk of the blocks gets that soon comes to its end. */
#include "report_heap.h"

#include <string.h>

#include "alloc/heap/heap.h"
#include "alloc/heap/libc_heap.h"
#include "alloc/heap/mapping.h"
#include "alloc/heap/nursery.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "memprof.h"
#include "profile_write.h"

/* --- What a block begins with. */

#define WORDS 4           /* of a block that are looked at */
#define SHORTEST_STRING 3 /* characters */
#define ADDRESSES_END ((uintptr_t)1 << STI_ADDRESS_BITS)

struct beginning {
    size_t size; /* bytes, of whole words; 0: the task has forbidden to read it */
    uintptr_t words[WORDS];
};

/* Reads what the task may just be writing, on this thread, and what it never wrote. */
STI_UNINSTRUMENTED static void read_words(struct beginning *beginning, const uintptr_t *block)
{
    for (size_t i = 0; i < beginning->size / sizeof *block; i++)
        beginning->words[i] = block[i];
}

static struct beginning beginning_of(uintptr_t block, size_t size)
{
    struct beginning beginning = { .size = size < sizeof beginning.words ? size : sizeof beginning.words };
    if (sti_readable_begin(STI_READABLE_HEAPS)) {
        read_words(&beginning, (const uintptr_t *)block);
        sti_readable_end(STI_READABLE_HEAPS);
    } else if (sti_readable_copy(beginning.words, block, beginning.size) != (long)beginning.size) {
        beginning.size = 0;
    }
    return beginning;
}

static bool is_printable(char c)
{
    return (c >= ' ' && c <= '~') || c == '\t' || c == '\n';
}

static bool read_string(const struct beginning *beginning, struct sti_report_contents *contents)
{
    const char *block = (const char *)beginning->words;
    size_t room = beginning->size < STI_REPORT_TEXT - 1 ? beginning->size : STI_REPORT_TEXT - 1;
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

/* The first one of these words that is one. */
static bool read_pointer(const struct beginning *beginning, size_t first, size_t end,
                         struct sti_report_contents *contents)
{
    size_t i = first;
    while (i < end && !leads_into_module(beginning->words[i]))
        i++;
    if (i >= end)
        return false;
    contents->kind = STI_REPORT_POINTER;
    contents->word = (unsigned)i;
    contents->address = beginning->words[i];
    return true;
}

static bool is_zero(const struct beginning *beginning, size_t count)
{
    uintptr_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= beginning->words[i];
    return all == 0 && count > 0;
}

/* The bytes of a pointer may be letters, but those of a text are no pointer into a module. */
static struct sti_report_contents contents_of(const struct beginning *beginning)
{
    struct sti_report_contents contents = { .kind = STI_REPORT_OTHER };
    size_t count = beginning->size / sizeof beginning->words[0];
    bool is_known = (count > 0 && read_pointer(beginning, 0, 1, &contents)) || read_string(beginning, &contents) ||
                    read_pointer(beginning, 1, count, &contents);
    if (!is_known && is_zero(beginning, count))
        contents.kind = STI_REPORT_ZEROS;
    return contents;
}

static bool contents_are_same(const struct sti_report_contents *a, const struct sti_report_contents *b)
{
    return a->kind == b->kind && a->address == b->address && a->word == b->word;
}

/* Count what kind of content a block begins with; blocks of no kind are the rest of those looked at. */
static void class_look_at(struct sti_report_class *class, uintptr_t block, size_t size)
{
    struct beginning beginning = beginning_of(block, size);
    struct sti_report_contents contents = contents_of(&beginning);
    size_t i = 0;
    class->looked_at += beginning.size > 0;
    if (contents.kind == STI_REPORT_OTHER)
        return;
    while (i < class->content_count && !contents_are_same(&class->contents[i], &contents))
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

/* The first one that has room for blocks of this size, or the place behind the last. */
static struct sti_report_class *find_class(struct sti_report_heap *heap, size_t size)
{
    struct sti_report_class *class = heap->classes;
    while (class < heap->classes + heap->class_count && class->size < size)
        class ++;
    return class;
}

/* The one for blocks of this size; where there is no room for more, the next one. */
static struct sti_report_class *class_of(struct sti_report_heap *heap, size_t size)
{
    struct sti_report_class *class = find_class(heap, size);
    struct sti_report_class *end = heap->classes + heap->class_count;
    if (class < end && class->size == size)
        return class;
    if (heap->class_count == STI_REPORT_CLASSES)
        return class < end ? class : class - 1;
    memmove(class + 1, class, (size_t)(end - class) * sizeof *class);
    heap->class_count++;
    *class = (struct sti_report_class){ .size = size, .above = next_smaller(size) };
    return class;
}

/* --- The largest blocks. */

static void note_large(struct sti_report_heap *heap, size_t size, uintptr_t block)
{
    size_t at = heap->largest_count;
    while (at > 0 && heap->largest[at - 1].size < size)
        at--;
    if (at == STI_REPORT_LARGEST)
        return;
    if (heap->largest_count < STI_REPORT_LARGEST)
        heap->largest_count++;
    memmove(&heap->largest[at + 1], &heap->largest[at], (heap->largest_count - 1 - at) * sizeof heap->largest[0]);
    heap->largest[at] = (struct sti_report_block){ .size = size };
    if (block == 0)
        return;
    struct beginning beginning = beginning_of(block, size);
    heap->largest[at].contents = contents_of(&beginning);
}

/* --- The pages and single blocks of a task. */

#define LOOKS 8 /* at blocks of a full page, spread over it */

/* Look into the first, the second, the fourth full page of a class, and so on: so the number of pages looked into grows
 * with the logarithm. */
static void look_into_full(struct sti_report_class *class, const struct sti_backend_area *area)
{
    size_t pages = class->full_pages++;
    size_t step = area->used / LOOKS + 1;
    for (size_t i = 0; i < area->used && class->looked_at < STI_REPORT_LOOKS && (pages & (pages + 1)) == 0; i += step)
        class_look_at(class, area->begin + i * area->block_size, area->block_size);
}

static struct sti_report_class *add_blocks(struct sti_report_heap *heap, size_t size, size_t count)
{
    struct sti_report_class *class = class_of(heap, size);
    class->blocks += count;
    class->bytes += count * size;
    heap->blocks += count;
    heap->bytes += count * size;
    return class;
}

static void report_add_area(const struct sti_backend_area *area, void *heap)
{
    bool is_full = area->used >= (area->end - area->begin) / area->block_size;
    struct sti_report_class *class = add_blocks(heap, area->block_size, area->used);
    for (size_t i = 0; i < area->used && i < STI_REPORT_LARGEST; i++)
        note_large(heap, area->block_size, is_full ? area->begin + i * area->block_size : 0);
    if (is_full)
        look_into_full(class, area);
}

static void add_singles(struct sti_report_heap *heap, const struct sti_heap *singles)
{
    for (size_t i = 0; singles != NULL && i < singles->count; i++) {
        uintptr_t block = (uintptr_t)singles->singles[i].block;
        size_t size = singles->singles[i].size;
        struct sti_report_class *class = add_blocks(heap, size, 1);
        note_large(heap, size, block);
        if (class->looked_at < LOOKS)
            class_look_at(class, block, size);
    }
}

/* --- The walk of the blocks. By what is done and not by the clock: so the same is found in every run. */

#define BLOCKS_ENOUGH 16384
#define PAGES_ENOUGH 64 /* mimalloc goes through all of a page before it shows the first */

struct walk {
    struct sti_report_heap *heap;
    struct sti_report_class *class; /* of the page of the last block */
    uintptr_t page;
    size_t blocks;
    size_t pages;
};

static bool report_visit_block(void *block, uintptr_t page, void *arg)
{
    struct walk *walk = arg;
    size_t size = sti_backend_usable_size(block);
    if (page != walk->page) {
        walk->page = page;
        walk->pages++;
        walk->class = find_class(walk->heap, size);
    }
    if (walk->class < walk->heap->classes + walk->heap->class_count && walk->class->full_pages == 0 &&
        walk->class->looked_at < STI_REPORT_LOOKS)
        class_look_at(walk->class, (uintptr_t)block, size);
    return ++walk->blocks < BLOCKS_ENOUGH && walk->pages < PAGES_ENOUGH;
}

static void add_heaps(struct sti_report_heap *report, const struct sti_scope *scope)
{
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer) {
        for (const struct sti_heap *heap = at->heaps; heap != NULL; heap = heap->next) {
            if (heap->backend != NULL)
                sti_backend_theap_areas(heap->theap, report_add_area, report);
        }
        report->libc_bytes += sti_libc_heap_held(at);
        report->mapped_bytes += sti_mapped_held(at->mapped);
    }
}

static void walk_heaps(struct sti_report_heap *report, const struct sti_scope *scope)
{
    struct walk walk = { .heap = report };
    bool goes_on = true;
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer) {
        for (const struct sti_heap *heap = at->heaps; heap != NULL && goes_on; heap = heap->next) {
            if (heap->backend != NULL)
                goes_on = sti_backend_theap_blocks(heap->theap, report_visit_block, &walk);
        }
    }
}

/* --- Which callstacks hold a task's memory, as samples show: the task's own samples, or else those of the running
 * profile whose blocks live in the task. --- */

#define SITES 1024 /* callstacks; a power of two. What comes when half of the room is taken is only summed up */

struct found {
    const struct sti_profile_site *site; /* NULL: none */
    uint64_t samples;
    uint64_t objects;
};

struct finding {
    const struct sti_scope *scope;
    const struct sti_heap *singles;
    uint64_t samples;
    size_t count;
    struct found found[SITES];
};

static struct found *found_for(struct finding *finding, const struct sti_profile_site *site)
{
    size_t at = site->hash % SITES;
    while (finding->found[at].site != NULL && finding->found[at].site != site)
        at = (at + 1) % SITES;
    if (finding->found[at].site == NULL && finding->count == SITES / 2)
        return NULL;
    finding->count += finding->found[at].site == NULL;
    return &finding->found[at];
}

static bool finding_is_held(const struct finding *finding, const void *block)
{
    const sti_backend_heap *of = sti_backend_heap_of(block);
    const struct sti_scope *scope = finding->scope;
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer) {
        for (const struct sti_heap *heap = at->heaps; heap != NULL; heap = heap->next) {
            if (heap->backend == of)
                return true;
        }
    }
    size_t i = 0;
    while (finding->singles != NULL && i < finding->singles->count && finding->singles->singles[i].block != block)
        i++;
    return finding->singles != NULL && i < finding->singles->count;
}

/* Another thread may be about to free the block: so the report keeps a copy, and the site, which lives on. */
static void note_sample(uintptr_t block, const void *metadata, void *argument)
{
    struct finding *finding = argument;
    const struct sti_profile_share *share = metadata;
    if (!finding_is_held(finding, (const void *)block))
        return;
    finding->samples += share->samples;
    struct found *found = found_for(finding, share->site);
    if (found == NULL)
        return;
    found->site = share->site;
    found->samples += share->samples;
    found->objects += share->objects;
}

/* The length of the callstack inside the task, which ends where this library's frames begin. */
static size_t site_length_in_task(const struct sti_profile_site *site)
{
    size_t length = 0;
    while (length < site->length && length < STI_REPORT_HOLDER_DEPTH &&
           !sti_caller_is_surely_ours(site->callstack[length]))
        length++;
    if (length == 0)
        length = site->length < STI_REPORT_HOLDER_DEPTH ? site->length : (size_t)STI_REPORT_HOLDER_DEPTH;
    return length;
}

static void take_holder(struct stint_report *report, const struct found *found)
{
    struct sti_report_holder *holder = &report->holders[report->holder_count++];
    holder->samples = found->samples;
    holder->bytes = (uint64_t)((double)found->samples * report->interval + 0.5);
    holder->blocks = (found->objects + STI_PROFILE_OBJECT / 2) / STI_PROFILE_OBJECT;
    holder->length = site_length_in_task(found->site);
    memcpy(holder->frames, found->site->callstack, holder->length * sizeof holder->frames[0]);
}

/* NULL: all of them have been. */
static struct found *most_samples(struct finding *finding)
{
    struct found *most = &finding->found[0];
    for (size_t i = 1; i < SITES; i++) {
        if (finding->found[i].samples > most->samples)
            most = &finding->found[i];
    }
    return most->samples > 0 ? most : NULL;
}

static void take_holders(struct stint_report *report, const struct sti_scope *scope, const struct sti_heap *singles)
{
    const struct sti_sampling *sampling = &scope->thread->sampling;
    bool may_be_sampled = sampling->profile != 0 || sampling->rates != NULL;
    struct finding *finding = may_be_sampled ? sti_process_calloc(1, sizeof *finding) : NULL;
    if (finding == NULL)
        return;
    finding->scope = scope;
    finding->singles = singles;
    sti_memprof_hold(); /* the sites stay */
    report->is_sampled = sti_memprof_show(scope, &report->interval, note_sample, finding);
    report->samples = finding->samples;
    struct found *most;
    while (report->holder_count < STI_REPORT_HOLDERS && (most = most_samples(finding)) != NULL) {
        take_holder(report, most);
        most->samples = 0;
    }
    sti_memprof_leave();
    sti_process_free(finding);
}

/* --- All of it. */

void sti_report_take_heap(struct stint_report *report, const struct sti_scope *scope)
{
    uint64_t begin = sti_clock_now();
    struct sti_heap *singles = sti_nursery_list(scope->thread, scope);
    report->heap.is_taken = true;
    add_singles(&report->heap, singles);
    add_heaps(&report->heap, scope);
    walk_heaps(&report->heap, scope);
    take_holders(report, scope, singles);
    sti_process_free(singles);
    report->heap.took_ns = sti_clock_now() - begin;
}
