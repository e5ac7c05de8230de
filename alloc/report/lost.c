/* SPDX-License-Identifier: MIT
 *
 * Who holds a task's blocks; see lost.h.
 *
 * The search for blocks that nothing in the task's memory points to any more is the marking of a conservative
 * collector, in one pass without its roots. Each live block is read once, word by word; what a word points into is
 * marked. What is not marked in the end has been lost, or is held by a variable, by a register, or on another stack: so
 * the scope's own stack is read too. Thread of the scope only. */
#include <stdlib.h>
#include <stint/report.h>
#include <string.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/stack.h"
#include "alloc/profile/followed.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/write.h"
#include "alloc/rollback/heap.h"
#include "lost.h"

#define STRETCHES_MAX ((size_t)1 << 16)
#define FIRST_SHIFT 16
#define WORDS ((size_t)3 << 16) /* that are read at most: in some half a millisecond */
#define WORDS_A_BLOCK 8         /* as which a block in itself counts, */
#define ROOMS_A_WORD 4          /* and where one may be */
#define PAGE ((uintptr_t)4096)
#define STACK_MAX ((uintptr_t)1 << 20)
#define ADDRESS_BITS (UINTPTR_MAX >> 16) /* some keep a type in the others */

/* --- Finding an area. */

bool sti_report_areas_index(struct sti_report_index *index, const struct sti_report_areas *areas)
{
    *index = (struct sti_report_index){ .areas = areas, .shift = FIRST_SHIFT };
    index->begin = areas->list[0].begin;
    for (size_t i = 0; i < areas->count; i++) {
        if (areas->list[i].end > index->end)
            index->end = areas->list[i].end;
    }
    while ((index->end - index->begin) >> index->shift >= STRETCHES_MAX)
        index->shift++;
    size_t stretches = ((index->end - index->begin) >> index->shift) + 1;
    index->firsts = sti_process_malloc(stretches * sizeof *index->firsts);
    if (index->firsts == NULL)
        return false;
    size_t area = 0;
    for (size_t i = 0; i < stretches; i++) {
        while (area + 1 < areas->count && areas->list[area].end <= index->begin + (i << index->shift))
            area++;
        index->firsts[i] = (uint32_t)area;
    }
    return true;
}

const struct sti_report_area *sti_report_area_around(const struct sti_report_index *index, uintptr_t address)
{
    if (address - index->begin >= index->end - index->begin)
        return NULL;
    const struct sti_report_area *area = &index->areas->list[index->firsts[(address - index->begin) >> index->shift]];
    const struct sti_report_area *last = index->areas->list + index->areas->count - 1;
    while (area < last && area->end <= address)
        area++;
    return address >= area->begin && address < area->end ? area : NULL;
}

/* --- The search. */

struct search {
    struct stint_report *report;
    struct sti_report_index index;
    const struct sti_report_area *area; /* of the last block: the next one most often lies there too */
    sti_report_show_fn *show;
    uint64_t *live; /* a bit for each block, and behind those */
    uint64_t *held; /* another one: something points to it */
    size_t words;   /* that may still be read */
};

static void set_bit(uint64_t *bits, size_t bit)
{
    bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

static size_t number_of(const struct sti_report_area *area, uintptr_t address)
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
    const struct sti_report_area *area = sti_report_area_around(&search->index, word);
    if (area != NULL && (word - area->begin) / area->size < (area->end - area->begin) / area->size)
        set_bit(search->held, number_of(area, word));
}

/* Blocks that point to themselves, as the heads of rings do, are held by that. */
STI_CALLER_UNINSTRUMENTED static void read_words(struct search *search, const uintptr_t *words, size_t count)
{
    uintptr_t begin = search->index.begin;
    uintptr_t size = search->index.end - begin;
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
        size_t part = size < STI_REPORT_VIEW * sizeof(uintptr_t) ? size : STI_REPORT_VIEW * sizeof(uintptr_t);
        const uintptr_t *words = sti_report_read(search->index.areas->view, begin, &part, end - begin);
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
    const struct sti_report_area *area = search->area;
    if (area != NULL && block - area->begin < area->end - area->begin)
        return true;
    search->area = area = sti_report_area_around(&search->index, block);
    return area == NULL || may_go_on(search, (area->end - area->begin) / area->size / ROOMS_A_WORD);
}

static bool visit(void *block, struct search *search)
{
    uintptr_t address = (uintptr_t)block;
    bool goes_on = go_to_area_of(search, address);
    const struct sti_report_area *area = search->area;
    if (!goes_on || area == NULL)
        return goes_on;
    set_bit(search->live, number_of(area, address));
    search->show(search->report, search->index.areas->view, area, address);
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

static void count_lost(const struct search *search, const struct sti_report_area *area)
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
    for (size_t i = 0; heap->is_searched && i < search->index.areas->count; i++)
        count_lost(search, &search->index.areas->list[i]);
}

void sti_report_search(struct stint_report *report, struct sti_scope *scope, const struct sti_report_index *index,
                       const struct sti_heap *singles, sti_report_show_fn *show)
{
    struct search search = { .report = report, .index = *index, .show = show, .words = WORDS };
    size_t words = index->areas->blocks / 64 + 1;
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
    const struct sti_report_index *index;
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
    if (sti_report_area_around(finding->index, block) == NULL)
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

/* Above it are this library's frames, first of all that of its boundary. */
static bool is_above_task(const void *frame)
{
    return frame == sti_boundary_landing || sti_caller_is_surely_ours(frame);
}

/* What lies above the task is no part of it. */
static size_t length_in_task(const struct sti_profile_site *site)
{
    size_t length = 0;
    while (length < site->length && length < STI_REPORT_HOLDER_DEPTH && !is_above_task(site->callstack[length]))
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

void sti_report_take_holders(struct stint_report *report, const struct sti_scope *scope,
                             const struct sti_report_index *index)
{
    const struct sti_sampling *sampling = &scope->thread->sampling;
    bool may_be_sampled = sampling->profile != 0 || sampling->rates != NULL;
    struct finding *finding = may_be_sampled ? sti_process_calloc(1, sizeof *finding) : NULL;
    if (finding == NULL)
        return;
    finding->index = index;
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
