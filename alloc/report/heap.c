/* SPDX-License-Identifier: MIT
 *
 * What a task had taken: its blocks by size, what they begin with, the largest, those that nothing points to any more,
 * and who holds them; see report.h. Thread of the scope only; nothing is made or freed there meanwhile.
 *
 * mimalloc tells of each page how many blocks of which size live there, at some nanoseconds a page. Which of them live
 * it tells only for all blocks of a heap, one by one; that is what takes time, and the search for lost blocks does it
 * until it has read enough. So what blocks contain is read where a page has no free block; of other pages, where the
 * search comes across one. */
#include "heap.h"

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
#include "alloc/interrupt/stack.h"
#include "alloc/profile/followed.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/write.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/nursery.h"

/* --- The pages and single blocks of a task. */

/* Blocks of one size side by side. */
struct area {
    uintptr_t begin;
    uintptr_t end;
    size_t size;  /* of each */
    size_t used;  /* that live */
    size_t first; /* the number of its first one, among all */
};

#define VIEW 2048 /* words */

/* What was copied last of blocks, where some page of them may not be readable. */
struct view {
    uintptr_t begin;
    size_t size;
    uintptr_t words[VIEW];
};

struct areas {
    struct view *view; /* NULL: all can be read where it lies */
    struct area *list; /* by address */
    size_t count;
    size_t capacity;
    size_t blocks; /* for which they have room */
    bool failed;   /* there was no memory for some */

    /* A shortcut to them. */
    uintptr_t begin; /* of all of them, */
    uintptr_t end;
    unsigned shift;
    uint32_t *firsts; /* for each stretch of 2^shift bytes: the first one that ends behind its beginning */
};

/* --- Finding them. */

#define FIRST_CAPACITY 256

static void add(struct areas *areas, uintptr_t begin, uintptr_t end, size_t size, size_t used)
{
    if (areas->count == areas->capacity) {
        size_t larger = areas->capacity == 0 ? FIRST_CAPACITY : 2 * areas->capacity;
        struct area *list = sti_process_realloc(areas->list, larger * sizeof *list);
        if (list == NULL) {
            areas->failed = true;
            return;
        }
        areas->list = list;
        areas->capacity = larger;
    }
    areas->list[areas->count++] =
        (struct area){ .begin = begin, .end = end, .size = size, .used = used, .first = areas->blocks };
    areas->blocks += (end - begin) / size;
}

static void add_singles(struct areas *areas, const struct sti_heap *singles)
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

static void add_heaps(struct stint_report *report, struct areas *areas, const struct sti_scope *scope)
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
    const struct area *a = left;
    const struct area *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static bool is_sorted(const struct areas *areas)
{
    size_t i = 1;
    while (i < areas->count && areas->list[i - 1].begin < areas->list[i].begin)
        i++;
    return i >= areas->count;
}

/* Mostly it is: mimalloc goes from the lowest page to the highest, and a task's first blocks lie below. libc's sort may
 * allocate: for nobody. */
static void sort(const struct areas *areas)
{
    if (is_sorted(areas))
        return;
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    qsort(areas->list, areas->count, sizeof *areas->list, by_address);
    sti_thread_counted = counted;
}

/* False: out of memory. */
static bool make_view(struct areas *areas)
{
    if (sti_readable_heaps())
        return true;
    areas->view = sti_process_malloc(sizeof *areas->view);
    if (areas->view == NULL)
        return false;
    areas->view->begin = areas->view->size = 0;
    return true;
}

#define STRETCHES_MAX ((size_t)1 << 16)
#define FIRST_SHIFT 16

/* False: out of memory. */
static bool make_shortcut(struct areas *areas)
{
    areas->shift = FIRST_SHIFT;
    areas->begin = areas->list[0].begin;
    for (size_t i = 0; i < areas->count; i++) {
        if (areas->list[i].end > areas->end)
            areas->end = areas->list[i].end;
    }
    while ((areas->end - areas->begin) >> areas->shift >= STRETCHES_MAX)
        areas->shift++;
    size_t stretches = ((areas->end - areas->begin) >> areas->shift) + 1;
    areas->firsts = sti_process_malloc(stretches * sizeof *areas->firsts);
    if (areas->firsts == NULL)
        return false;
    size_t area = 0;
    for (size_t i = 0; i < stretches; i++) {
        while (area + 1 < areas->count && areas->list[area].end <= areas->begin + (i << areas->shift))
            area++;
        areas->firsts[i] = (uint32_t)area;
    }
    return true;
}

/* The one that the address lies in; NULL: none. */
static const struct area *area_around(const struct areas *areas, uintptr_t address)
{
    if (address - areas->begin >= areas->end - areas->begin)
        return NULL;
    const struct area *area = &areas->list[areas->firsts[(address - areas->begin) >> areas->shift]];
    const struct area *last = areas->list + areas->count - 1;
    while (area < last && area->end <= address)
        area++;
    return address >= area->begin && address < area->end ? area : NULL;
}

/* --- Reading them. */

static const void *copy(struct view *view, uintptr_t address, size_t *wanted, size_t ahead)
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

/* As many bytes as are wanted, or as can be read before a page that cannot; NULL: none. ahead: so many of them and
 * behind them are of use. */
static inline const void *read_at(struct view *view, uintptr_t address, size_t *wanted, size_t ahead)
{
    return __builtin_expect(view == NULL, 1) ? (const void *)address : copy(view, address, wanted, ahead);
}

/* --- What a block begins with. */

#define WORDS 4 /* of a block that are looked at */
#define LOOKED_AT ((size_t)WORDS * sizeof(uintptr_t))
#define SHORTEST_STRING 3 /* characters */
#define ADDRESSES_END ((uintptr_t)1 << 47)

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
static void look_at(struct sti_report_class *class, struct view *view, uintptr_t block, size_t ahead)
{
    size_t size = class->size < LOOKED_AT ? class->size : LOOKED_AT;
    const void *words = read_at(view, block, &size, ahead);
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

#define LOOKS ((size_t)512)        /* at blocks of full pages */
#define LOOKS_COPIED ((size_t)128) /* where each is a system call */

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

static void sum_up(struct sti_report_heap *heap, const struct areas *areas)
{
    for (size_t i = 0; i < areas->count; i++) {
        const struct area *area = &areas->list[i];
        struct sti_report_class *class = class_of(heap, area->size);
        class->blocks += area->used;
        class->bytes += area->used * area->size;
        heap->blocks += area->used;
        heap->bytes += area->used * area->size;
    }
}

static bool is_full(const struct area *area)
{
    return area->used >= (area->end - area->begin) / area->size;
}

/* Spread over the page. */
static void look_into(struct sti_report_heap *heap, struct view *view, const struct area *area, size_t looks)
{
    struct sti_report_class *class = class_of(heap, area->size);
    size_t step = area->used / looks;
    for (size_t i = 0; i < looks && class->looked_at < STI_REPORT_LOOKS; i++)
        look_at(class, view, area->begin + (i * step + i % (step > 1 ? step : 1)) * area->size, LOOKED_AT);
}

static void look_into_full_pages(struct sti_report_heap *heap, const struct areas *areas)
{
    size_t all = areas->view == NULL ? LOOKS : LOOKS_COPIED;
    size_t each = areas->count > 0 ? all / areas->count + 1 : 1;
    size_t every = areas->count / all + 1;
    for (size_t i = 0; i < areas->count; i += every) {
        const struct area *area = &areas->list[i];
        if (is_full(area))
            look_into(heap, areas->view, area, each < area->used ? each : area->used);
    }
}

/* By the search. */
static void look_at_live(struct stint_report *report, struct view *view, const struct area *area, uintptr_t block)
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

static void find_largest(struct sti_report_heap *heap, const struct areas *areas)
{
    for (size_t i = 0; i < areas->count; i++) {
        const struct area *area = &areas->list[i];
        size_t smallest = heap->largest_count < STI_REPORT_LARGEST ? 0 : heap->largest[STI_REPORT_LARGEST - 1].size;
        for (size_t j = 0; j < area->used && j < STI_REPORT_LARGEST && area->size > smallest; j++)
            insert(heap, area->size, is_full(area) ? area->begin + j * area->size : 0);
    }
    for (size_t i = 0; i < heap->largest_count; i++) {
        struct sti_report_block *block = &heap->largest[i];
        size_t size = block->size < LOOKED_AT ? block->size : LOOKED_AT;
        const void *words = block->address != 0 ? read_at(areas->view, block->address, &size, size) : NULL;
        if (words != NULL)
            block->contents = contents_of(words, size);
    }
}

/* --- The search for blocks that nothing in the task's memory points to any more: the marking of a conservative
 * collector, in one pass without its roots. Each live block is read once, word by word; what a word points into is
 * marked. What is not marked in the end has been lost, or is held by a variable, by a register, or on another stack: so
 * the scope's own stack is read too. */

#define ENOUGH ((size_t)3 << 16) /* words: some half a millisecond */
#define WORDS_A_BLOCK 8          /* as which a block in itself counts, */
#define ROOMS_A_WORD 4           /* and where one may be */
#define PAGE ((uintptr_t)4096)
#define STACK_MAX ((uintptr_t)1 << 20)
#define ADDRESS_BITS (UINTPTR_MAX >> 16) /* some keep a type in the others */

struct search {
    struct stint_report *report;
    const struct areas *areas;
    const struct area *area; /* of the last block: the next one most often lies there too */
    uint64_t *live;          /* a bit for each block, and behind those */
    uint64_t *held;          /* another one: something points to it */
    size_t words;            /* that may still be read */
};

static void set_bit(uint64_t *bits, size_t bit)
{
    bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

static size_t number_of(const struct area *area, uintptr_t address)
{
    return area->first + (address - area->begin) / area->size;
}

/* By what is done and not by the clock: so the same is found in every run. */
static bool may_go_on(struct search *search, size_t words)
{
    search->words -= words < search->words ? words : search->words;
    return search->words > 0;
}

static void mark(struct search *search, uintptr_t word)
{
    const struct area *area = area_around(search->areas, word);
    if (area != NULL && (word - area->begin) / area->size < (area->end - area->begin) / area->size)
        set_bit(search->held, number_of(area, word));
}

/* Blocks that point to themselves, as the heads of rings do, are held by that. */
STI_CALLER_UNINSTRUMENTED static void read_words(struct search *search, const uintptr_t *words, size_t count)
{
    uintptr_t begin = search->areas->begin;
    uintptr_t size = search->areas->end - begin;
    for (size_t i = 0; i < count; i++) {
        uintptr_t word = words[i] & ADDRESS_BITS;
        if (__builtin_expect(word - begin < size, 0))
            mark(search, word);
    }
}

/* What lies before end is of use, too. False: that was enough. */
static bool read_all(struct search *search, uintptr_t begin, size_t size, uintptr_t end)
{
    bool goes_on = true;
    while (goes_on && size >= sizeof(uintptr_t)) {
        size_t part = size < VIEW * sizeof(uintptr_t) ? size : VIEW * sizeof(uintptr_t);
        const uintptr_t *words = read_at(search->areas->view, begin, &part, end - begin);
        if (words != NULL) {
            read_words(search, words, part / sizeof *words);
        } else {
            size_t page = PAGE - begin % PAGE;
            part = size < page ? size : page;
            search->report->heap.unread_bytes += part;
        }
        begin += part;
        size -= part;
        goes_on = may_go_on(search, part / sizeof *words + WORDS_A_BLOCK);
    }
    return goes_on;
}

/* mimalloc goes through all blocks of a page before it shows the first, and those that are free take it longest. */
static bool go_to_area_of(struct search *search, uintptr_t block)
{
    const struct area *area = search->area;
    if (area != NULL && block - area->begin < area->end - area->begin)
        return true;
    search->area = area = area_around(search->areas, block);
    return area == NULL || may_go_on(search, (area->end - area->begin) / area->size / ROOMS_A_WORD);
}

static bool visit(void *block, struct search *search)
{
    uintptr_t address = (uintptr_t)block;
    bool goes_on = go_to_area_of(search, address);
    const struct area *area = search->area;
    if (!goes_on || area == NULL)
        return goes_on;
    set_bit(search->live, number_of(area, address));
    look_at_live(search->report, search->areas->view, area, address);
    bool is_read = read_all(search, address, area->size, area->end);
    search->report->heap.live_blocks += is_read;
    search->report->heap.live_bytes += is_read ? area->size : 0;
    return is_read;
}

static bool visit_singles(struct search *search, const struct sti_heap *singles)
{
    bool goes_on = true;
    for (size_t i = 0; singles != NULL && i < singles->count && goes_on; i++)
        goes_on = visit(singles->singles[i].block, search);
    return goes_on;
}

static bool visit_block(void *block, uintptr_t page, void *search)
{
    (void)page;
    return visit(block, search);
}

static bool visit_heaps(struct search *search, const struct sti_scope *scope)
{
    bool goes_on = true;
    for (const struct sti_scope *at = scope->thread->scope; at != NULL; at = at == scope ? NULL : at->outer) {
        for (const struct sti_heap *heap = at->heaps; heap != NULL && goes_on; heap = heap->next) {
            if (heap->backend != NULL)
                goes_on = sti_backend_theap_blocks(heap->theap, visit_block, search);
        }
    }
    return goes_on;
}

/* From the innermost frame that is not this library's: in those lies what was there before. Where the scope's frames
 * have been left there is nothing. */
static bool visit_stack(struct search *search, const struct sti_scope *scope)
{
    const struct stint_report *report = search->report;
    uintptr_t begin = (report->delivered.length > 0 ? &report->delivered : &report->tripped)->begin & ~(uintptr_t)7;
    if (begin < sti_stack_lowest() || begin >= scope->frame || sti_thread_metered == NULL)
        return true;
    return read_all(search, begin, scope->frame - begin < STACK_MAX ? scope->frame - begin : STACK_MAX, scope->frame);
}

static void count_lost(const struct search *search, const struct area *area)
{
    struct sti_report_heap *heap = &search->report->heap;
    size_t count = (area->end - area->begin) / area->size;
    for (size_t i = area->first; i < area->first + count; i++) {
        uint64_t lost = search->live[i / 64] & ~search->held[i / 64];
        if (lost == 0) {
            i |= 63;
        } else if ((lost >> i % 64 & 1) != 0) {
            heap->lost_blocks++;
            heap->lost_bytes += area->size;
        }
    }
}

static void look(struct search *search, const struct sti_scope *scope, const struct sti_heap *singles)
{
    struct sti_report_heap *heap = &search->report->heap;
    heap->is_searched = visit_stack(search, scope) && visit_singles(search, singles) && visit_heaps(search, scope);
    for (size_t i = 0; heap->is_searched && i < search->areas->count; i++)
        count_lost(search, &search->areas->list[i]);
}

static void search_lost(struct stint_report *report, const struct sti_scope *scope, const struct areas *areas,
                        const struct sti_heap *singles)
{
    struct search search = { .report = report, .areas = areas, .words = ENOUGH };
    size_t words = areas->blocks / 64 + 1;
    search.live = sti_process_calloc(2 * words, sizeof *search.live);
    if (search.live == NULL)
        return;
    search.held = search.live + words;
    look(&search, scope, singles);
    sti_process_free(search.live);
}

/* --- Who holds a task's memory, as samples tell, of its own or else of the running profile's: those whose blocks live
 * in the task, by their callstacks. --- */

#define SITES 1024 /* callstacks; a power of two. What comes when half of the room is taken is only summed up */

struct found {
    const struct sti_profile_site *site; /* NULL: none */
    uint64_t samples;
    uint64_t objects;
};

struct finding {
    const struct areas *areas;
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

/* Others may free the block at this moment: so what is kept of it is a copy, and the site, which lives on. */
static void note_sample(uintptr_t block, const void *metadata, void *argument)
{
    struct finding *finding = argument;
    const struct sti_profile_share *share = metadata;
    if (area_around(finding->areas, block) == NULL)
        return;
    finding->samples += share->samples;
    struct found *found = found_for(finding, share->site);
    if (found == NULL)
        return;
    found->site = share->site;
    found->samples += share->samples;
    found->objects += share->objects;
}

static int by_samples(const void *left, const void *right)
{
    const struct found *a = left;
    const struct found *b = right;
    return (a->samples < b->samples) - (a->samples > b->samples);
}

/* What lies above the task is no part of it: this library's frames come first there. */
static size_t length_in_task(const struct sti_profile_site *site)
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
    holder->length = length_in_task(found->site);
    memcpy(holder->frames, found->site->callstack, holder->length * sizeof holder->frames[0]);
}

/* libc's sort may allocate: for nobody. */
static void sort_by_samples(struct finding *finding)
{
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    qsort(finding->found, SITES, sizeof finding->found[0], by_samples);
    sti_thread_counted = counted;
}

static void take_holders(struct stint_report *report, const struct sti_scope *scope, const struct areas *areas)
{
    const struct sti_sampling *sampling = &scope->thread->sampling;
    bool may_be_sampled = sampling->profile != 0 || sampling->rates != NULL;
    struct finding *finding = may_be_sampled ? sti_process_calloc(1, sizeof *finding) : NULL;
    if (finding == NULL)
        return;
    finding->areas = areas;
    sti_memprof_hold(); /* the sites stay */
    report->is_sampled = sti_rate_show(scope, &report->interval, note_sample, finding);
    if (!report->is_sampled) {
        report->interval = sti_memprof_settings.interval;
        report->is_sampled = sti_memprof_show_logged(sampling, &sti_gathered_tracker, note_sample, finding);
    }
    report->samples = finding->samples;
    sort_by_samples(finding);
    for (size_t i = 0; i < STI_REPORT_HOLDERS && finding->found[i].samples > 0; i++)
        take_holder(report, &finding->found[i]);
    sti_memprof_leave();
    sti_process_free(finding);
}

/* --- All of it. */

static void look_into_blocks(struct stint_report *report, const struct sti_scope *scope, struct areas *areas,
                             const struct sti_heap *singles)
{
    look_into_full_pages(&report->heap, areas);
    find_largest(&report->heap, areas);
    if (!make_shortcut(areas))
        return;
    take_holders(report, scope, areas);
    search_lost(report, scope, areas, singles);
    sti_process_free(areas->firsts);
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
    struct areas areas = { .view = NULL };
    struct sti_heap *singles = sti_nursery_list(scope->thread, scope);
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
