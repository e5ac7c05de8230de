/* SPDX-License-Identifier: MIT
 *
 * The nursery; see nursery.h. Thread of the nursery only. */
#include "nursery.h"

#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "heap.h"
#include "retired.h"

#define YOUNG_BLOCKS 256
#define YOUNG_BYTES ((size_t)32 << 10)
#define LARGEST_YOUNG STI_BACKEND_SHARED_PAGE
#define MAX_LOGGED 2048                 /* what comes next begins another nursery */
#define MAX_COMMITTED 4096              /* blocks that were left, or */
#define MAX_FILLED ((size_t)3 << 20)    /* bytes in them */
#define MAX_UNKNOWN ((size_t)256 << 10) /* bytes of inner scopes' blocks that may be free */

struct sti_nursery {
    struct sti_heap *heap;
    struct sti_nursery *below; /* what scopes further out have in the log lies there */
    size_t count;              /* in the log */
    size_t committed;          /* blocks that lie there since it was looked at, at most */
    size_t filled;             /* bytes in blocks that were made since, and in half of those that lived then */
    unsigned openers;          /* scopes that are open, whose part of the log begins here */
    void *log[MAX_LOGGED];
};

/* A stolen subtask inside a scope of its task is that scope's for all purposes here. */
static struct sti_scope *home_of(struct sti_scope *scope)
{
    while (scope->is_inner_subtask)
        scope = scope->outer;
    return scope;
}

static size_t young_begin_in(const struct sti_nursery *nursery, const struct sti_young *young)
{
    return nursery == young->nursery ? young->begin : 0;
}

static struct sti_nursery *nursery_make(struct sti_thread *thread)
{
    struct sti_nursery *nursery = sti_process_lasting_calloc(1, sizeof *nursery);
    if (nursery == NULL)
        return NULL;
    nursery->heap = sti_heap_take(thread);
    if (nursery->heap == NULL) {
        sti_process_free(nursery);
        return NULL;
    }
    return nursery;
}

static void nursery_retire(struct sti_thread *thread, struct sti_nursery *nursery)
{
    sti_retired_put(thread, nursery->heap);
    sti_process_free(nursery);
}

/* Of those that are in use further down, nobody needs one whose blocks are all free. */
static void drop_empty(struct sti_thread *thread)
{
    struct sti_nursery **link = &thread->nursery;
    while (*link != NULL) {
        struct sti_nursery *nursery = *link;
        if (nursery->openers > 0 || sti_heap_size(nursery->heap).blocks > 0) {
            link = &nursery->below;
        } else {
            *link = nursery->below;
            nursery_retire(thread, nursery);
        }
    }
}

static struct sti_nursery *nursery_push(struct sti_thread *thread)
{
    drop_empty(thread);
    struct sti_nursery *nursery = nursery_make(thread);
    if (nursery == NULL)
        return NULL;
    nursery->below = thread->nursery;
    thread->nursery = nursery;
    return nursery;
}

bool sti_nursery_has(const struct sti_thread *thread, const sti_backend_heap *backend)
{
    const struct sti_nursery *nursery = thread->nursery;
    while (nursery != NULL && nursery->heap->backend != backend)
        nursery = nursery->below;
    return nursery != NULL;
}

/* --- Which of the logged blocks live? Those that a map of the nursery's heap says so of, each once: what has been
 * freed since, and is a part of another block by now, is that block, which is in the log as well. --- */

/* Of the log between these two: their bytes. They are listed, too, where there is a list with room. */
static size_t nursery_find_live(struct sti_nursery *nursery, size_t begin, size_t end, struct sti_heap *list)
{
    size_t held = 0;
    struct sti_heap_block block;
    for (size_t i = begin; i < end; i++) {
        if (sti_heap_map_mark(nursery->heap, (uintptr_t)nursery->log[i], &block) != STI_HEAP_NEW)
            continue;
        held += block.size;
        if (list != NULL)
            list->singles[list->count++] = (struct sti_single){ .block = (void *)block.begin, .size = block.size };
    }
    return held;
}

/* --- A scope opens, and allocates --- */

void sti_nursery_open(struct sti_thread *thread, struct sti_scope *scope, bool no_nursery)
{
    const struct sti_scope *outer = scope->outer != NULL ? home_of(scope->outer) : NULL;
    size_t logged = thread->nursery != NULL ? thread->nursery->count : 0;
    scope->young = (struct sti_young){
        .nursery = thread->nursery,
        .begin = logged,
        .other_nursery = outer == NULL ? logged > 0 : outer->young.other_nursery,
        .no_nursery = no_nursery || (outer != NULL && outer->young.no_nursery),
    };
    if (thread->nursery != NULL)
        thread->nursery->openers++;
}

/* The nursery that the scope's next block comes from, with room in its log. */
static struct sti_nursery *nursery_ready(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_nursery *nursery = thread->nursery;
    if (nursery == NULL || scope->young.other_nursery || nursery->count == MAX_LOGGED) {
        nursery = nursery_push(thread);
        if (nursery == NULL)
            return NULL;
        scope->young.other_nursery = false;
    }
    if (scope->young.blocks == 0)
        sti_heap_find_part(nursery->heap);
    return nursery;
}

static void *nursery_put(struct sti_thread *thread, struct sti_scope *scope, size_t size)
{
    size_t held = sti_backend_block_size(size);
    struct sti_nursery *nursery = nursery_ready(thread, scope);
    if (nursery == NULL)
        return NULL;
    void *block = sti_backend_theap_malloc(nursery->heap->theap, size);
    if (block == NULL)
        return NULL;
    nursery->log[nursery->count++] = block;
    nursery->filled += held;
    scope->young.held += held;
    scope->young.blocks++;
    return block;
}

void *sti_nursery_malloc(struct sti_thread *thread, size_t size)
{
    struct sti_scope *scope = home_of(thread->scope);
    const struct sti_young *young = &scope->young;
    if (young->blocks >= YOUNG_BLOCKS || young->held > YOUNG_BYTES || size > LARGEST_YOUNG || young->no_nursery)
        return NULL;
    return nursery_put(thread, scope, size);
}

bool sti_nursery_takes_result(const struct sti_thread *thread, size_t size)
{
    return size <= LARGEST_YOUNG && !home_of(thread->scope)->young.no_nursery;
}

void *sti_nursery_malloc_result(struct sti_thread *thread, size_t size)
{
    return nursery_put(thread, home_of(thread->scope), size);
}

/* The scope's part of the log ends where that of the next scope inside it begins. */
static const struct sti_scope *next_inside(const struct sti_thread *thread, const struct sti_scope *scope)
{
    const struct sti_scope *inner = NULL;
    for (struct sti_scope *at = thread->scope; at != scope; at = at->outer) {
        if (!at->is_inner_subtask)
            inner = at;
    }
    return inner;
}

/* Of the log from here downwards. Memory that the scope has freed may be that of a scope inside it by now, whose part
 * of the log lies above. Without memory for a map what was known before is not too little. */
static void nursery_measure(struct sti_young *young, struct sti_nursery *nursery, size_t end)
{
    size_t held = 0;
    while (nursery != NULL) {
        if (!sti_heap_map_make_whole(nursery->heap))
            return;
        nursery_find_live(nursery, end, nursery->count, NULL);
        held += nursery_find_live(nursery, young_begin_in(nursery, young), end, NULL);
        sti_heap_map_drop(&nursery->heap->map);
        nursery = nursery == young->nursery ? NULL : nursery->below;
        end = nursery != NULL ? nursery->count : 0;
    }
    young->held = held;
    young->measured = held;
}

void sti_nursery_measure(struct sti_thread *thread, struct sti_scope *scope)
{
    if (scope->young.held == 0 || scope->is_inner_subtask)
        return;
    const struct sti_scope *inner = next_inside(thread, scope);
    if (inner != NULL)
        nursery_measure(&scope->young, inner->young.nursery, inner->young.begin);
    else
        nursery_measure(&scope->young, thread->nursery, thread->nursery != NULL ? thread->nursery->count : 0);
}

/* --- The end of a scope --- */

/* With nothing in its log: look from time to time how much has been left there. */
static void renew_if_full(struct sti_thread *thread)
{
    struct sti_nursery *nursery = thread->nursery;
    bool full = nursery->committed >= MAX_COMMITTED || nursery->filled >= MAX_FILLED;
    if (!full || nursery->openers > 0 || nursery->below != NULL)
        return;
    sti_backend_theap_collect(sti_backend_heap_theap(nursery->heap->backend), false);
    struct sti_backend_size size = sti_heap_size(nursery->heap);
    nursery->committed = size.blocks / 2;
    nursery->filled = size.held / 2;
    if (size.blocks < MAX_COMMITTED && size.held < MAX_FILLED)
        return;
    thread->nursery = NULL;
    nursery_retire(thread, nursery);
}

/* Those that were begun since the scope opened have nothing in their logs any more. The first of all stays. */
static void pop_to(struct sti_thread *thread, const struct sti_young *young)
{
    while (thread->nursery != young->nursery && (young->nursery != NULL || thread->nursery->below != NULL)) {
        struct sti_nursery *nursery = thread->nursery;
        thread->nursery = nursery->below;
        nursery_retire(thread, nursery);
    }
    if (thread->nursery->count == 0)
        renew_if_full(thread);
}

static void nursery_forget(struct sti_thread *thread, const struct sti_young *young)
{
    for (struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        size_t begin = young_begin_in(nursery, young);
        nursery->committed += nursery->count - begin;
        nursery->count = begin;
        if (nursery == young->nursery)
            break;
    }
    pop_to(thread, young);
}

/* What lies in the log is the outermost scope's, and so are the samples among it. */
static void promote_samples(struct sti_thread *thread, const struct sti_young *young)
{
    for (struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        sti_sampling_end_heaps(thread, nursery->heap, true);
        if (nursery == young->nursery)
            break;
    }
}

static bool is_logged(const struct sti_thread *thread, const struct sti_young *young)
{
    return thread->nursery != young->nursery || (thread->nursery != NULL && thread->nursery->count != young->begin);
}

/* False: it has nothing in the log. */
static bool close_part(const struct sti_thread *thread, const struct sti_young *young)
{
    if (young->nursery != NULL)
        young->nursery->openers--;
    return is_logged(thread, young);
}

void sti_nursery_commit(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_young *young = &scope->young;
    if (!close_part(thread, young))
        return;
    if (scope->outer == NULL) {
        promote_samples(thread, young);
        nursery_forget(thread, young);
        return;
    }
    struct sti_young *outer = &home_of(scope->outer)->young;
    outer->held += young->held;
    outer->other_nursery = outer->other_nursery && young->other_nursery;
    if (outer->held > 2 * outer->measured + MAX_UNKNOWN)
        nursery_measure(outer, thread->nursery, thread->nursery->count);
}

static size_t logged_in(const struct sti_thread *thread, const struct sti_young *young)
{
    size_t logged = 0;
    for (const struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        logged += nursery->count - young_begin_in(nursery, young);
        if (nursery == young->nursery)
            break;
    }
    return logged;
}

struct sti_heap *sti_nursery_list(struct sti_thread *thread, const struct sti_scope *scope)
{
    const struct sti_young *young = &scope->young;
    size_t logged = is_logged(thread, young) ? logged_in(thread, young) : 0;
    struct sti_heap *list = logged != 0 ? sti_process_calloc(1, sizeof *list + logged * sizeof list->singles[0]) : NULL;
    for (struct sti_nursery *nursery = thread->nursery; list != NULL && nursery != NULL; nursery = nursery->below) {
        if (sti_heap_map_make_whole(nursery->heap))
            nursery_find_live(nursery, young_begin_in(nursery, young), nursery->count, list);
        sti_heap_map_drop(&nursery->heap->map);
        if (nursery == young->nursery)
            break;
    }
    if (list == NULL || list->count > 0)
        return list;
    sti_process_free(list);
    return NULL;
}

struct sti_heap *sti_nursery_begin_rollback(struct sti_thread *thread, struct sti_scope *scope)
{
    if (!close_part(thread, &scope->young))
        return NULL;
    struct sti_heap *list = sti_nursery_list(thread, scope);
    nursery_forget(thread, &scope->young); /* without memory for the list they stay allocated */
    return list;
}

void sti_nursery_give_back(struct sti_thread *thread)
{
    struct sti_nursery *nursery = thread->nursery;
    if (nursery != NULL && nursery->count == 0 && nursery->openers == 0 && nursery->below == NULL) {
        thread->nursery = NULL;
        nursery_retire(thread, nursery);
    }
}

void sti_nursery_end_thread(struct sti_thread *thread)
{
    while (thread->nursery != NULL) {
        struct sti_nursery *nursery = thread->nursery;
        thread->nursery = nursery->below;
        nursery_retire(thread, nursery);
    }
}
