/* SPDX-License-Identifier: MIT
 *
 * The nursery; see nursery.h. Thread of the nursery only. */
#include "nursery.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "heap.h"
#include "retired.h"

#define YOUNG_BLOCKS 256
#define YOUNG_BYTES ((size_t)32 << 10)
#define LARGEST_YOUNG STI_BACKEND_KEPT_BLOCK
#define FIRST_CAPACITY 256
#define MAX_LOGGED 2048    /* then the next scope begins another nursery */
#define MAX_COMMITTED 4096 /* blocks that were left, or */
#define MAX_PAGES ((size_t)1 << 20)
#define MAX_FILLED STI_BACKEND_KEPT     /* or others could not free there while it is walked */
#define MAX_UNKNOWN ((size_t)256 << 10) /* bytes of inner scopes' blocks that may be free */

struct sti_nursery {
    struct sti_heap *heap;
    struct sti_nursery *below; /* what scopes further out have in the log lies there */
    void **log;
    size_t count;
    size_t capacity;
    size_t compacted; /* count after the log was last rid of what lives no more */
    size_t committed; /* blocks that lie there since it was looked at, at most */
    size_t filled;    /* bytes in all blocks there, be they committed; never too few */
    unsigned openers; /* scopes that are open, whose part of the log begins here */
};

/* A stolen subtask inside a scope of its task is that scope's for all purposes here. */
static struct sti_scope *home_of(struct sti_scope *scope)
{
    while (scope->is_inner_subtask)
        scope = scope->outer;
    return scope;
}

static size_t begin_in(const struct sti_nursery *nursery, const struct sti_young *young)
{
    return nursery == young->nursery ? young->begin : 0;
}

static void free_nursery(struct sti_nursery *nursery)
{
    sti_process_free(nursery->log);
    sti_process_free(nursery);
}

static struct sti_nursery *make(struct sti_thread *thread)
{
    struct sti_nursery *nursery = sti_process_lasting_calloc(1, sizeof *nursery);
    if (nursery == NULL)
        return NULL;
    nursery->heap = sti_heap_take_for_nursery(thread);
    if (nursery->heap == NULL) {
        free_nursery(nursery);
        return NULL;
    }
    return nursery;
}

static void retire(struct sti_thread *thread, struct sti_nursery *nursery)
{
    sti_retired_put(thread, nursery->heap);
    free_nursery(nursery);
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
            retire(thread, nursery);
        }
    }
}

static struct sti_nursery *push(struct sti_thread *thread)
{
    drop_empty(thread);
    struct sti_nursery *nursery = thread->spare_nursery;
    if (nursery == NULL)
        nursery = make(thread);
    if (nursery == NULL)
        return NULL;
    thread->spare_nursery = NULL;
    nursery->heap->theap = sti_backend_heap_theap(nursery->heap->backend);
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

/* --- Which of the logged blocks live? --- */

/* Sort this part of the log, and mark what lives, each block once. */
static struct sti_heap_part mark_live(struct sti_nursery *nursery, size_t begin, size_t end)
{
    return sti_heap_part_mark(nursery->heap->theap, nursery->log + begin, end - begin);
}

static size_t sum_and_unmark(const struct sti_heap_part *part)
{
    size_t held = 0;
    for (size_t i = 0; i < part->count; i++) {
        if ((part->addresses[i] & STI_HEAP_LIVES) == 0)
            continue;
        part->addresses[i] &= ~STI_HEAP_LIVES;
        held += sti_backend_usable_size((const void *)part->addresses[i]);
    }
    return held;
}

/* Rid the log, from begin on, of what lives no more. */
static void compact(struct sti_nursery *nursery, size_t begin)
{
    struct sti_heap_part part = mark_live(nursery, begin, nursery->count);
    nursery->count = begin;
    for (size_t i = 0; i < part.count; i++) {
        if ((part.addresses[i] & STI_HEAP_LIVES) != 0)
            nursery->log[nursery->count++] = (void *)(part.addresses[i] & ~STI_HEAP_LIVES);
    }
    nursery->compacted = nursery->count;
}

/* --- A scope opens, and allocates --- */

/* What scopes inside this one have left in the log may be gone long since. */
static size_t logged_below(const struct sti_thread *thread, const struct sti_scope *outer)
{
    struct sti_nursery *nursery = thread->nursery;
    if (nursery == NULL)
        return 0;
    if (outer != NULL && nursery->count >= MAX_LOGGED && nursery->count >= 2 * nursery->compacted)
        compact(nursery, begin_in(nursery, &outer->young));
    return nursery->count;
}

void sti_nursery_open(struct sti_thread *thread, struct sti_scope *scope, bool barred)
{
    const struct sti_scope *outer = scope->outer != NULL ? home_of(scope->outer) : NULL;
    size_t logged = logged_below(thread, outer);
    scope->young = (struct sti_young){
        .nursery = thread->nursery,
        .begin = logged,
        .apart = outer == NULL ? logged > 0 : outer->young.apart || logged >= MAX_LOGGED,
        .barred = barred || (outer != NULL && outer->young.barred),
    };
    if (thread->nursery != NULL)
        thread->nursery->openers++;
}

static bool grow_log(struct sti_nursery *nursery)
{
    size_t larger = nursery->capacity == 0 ? FIRST_CAPACITY : nursery->capacity * 2;
    void **log = sti_process_lasting_realloc(nursery->log, larger * sizeof *log);
    if (log == NULL)
        return false;
    nursery->log = log;
    nursery->capacity = larger;
    return true;
}

static bool have_room(struct sti_nursery *nursery, size_t begin)
{
    if (nursery->count < nursery->capacity)
        return true;
    if (nursery->count >= MAX_LOGGED && nursery->count >= 2 * nursery->compacted)
        compact(nursery, begin);
    return nursery->count < nursery->capacity / 2 || grow_log(nursery) || nursery->count < nursery->capacity;
}

/* In the midst of a scope too: a part of the log may lie in several nurseries. */
static __attribute__((noinline)) bool is_full(struct sti_nursery *nursery)
{
    sti_backend_theap *part = sti_backend_heap_theap(nursery->heap->backend);
    sti_backend_theap_collect(part, false);
    nursery->filled = sti_backend_theap_size(part).held;
    return nursery->filled > MAX_FILLED / 2;
}

/* The nursery that the scope's next block comes from, with room in its log. */
static struct sti_nursery *ready(struct sti_thread *thread, struct sti_scope *scope, size_t size)
{
    struct sti_nursery *nursery = thread->nursery;
    if (nursery == NULL || scope->young.apart || (nursery->filled + size > MAX_FILLED && is_full(nursery))) {
        nursery = push(thread);
        if (nursery == NULL)
            return NULL;
        scope->young.apart = false;
    }
    if (scope->young.blocks == 0) /* the thread may have given up its part of the heap, and have got another one */
        nursery->heap->theap = sti_backend_heap_theap(nursery->heap->backend);
    return have_room(nursery, begin_in(nursery, &scope->young)) ? nursery : NULL;
}

static void *put(struct sti_thread *thread, struct sti_scope *scope, size_t size)
{
    size_t held = sti_backend_block_size(size);
    struct sti_nursery *nursery = ready(thread, scope, held);
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
    if (young->blocks >= YOUNG_BLOCKS || young->held > YOUNG_BYTES || size > LARGEST_YOUNG || young->barred)
        return NULL;
    return put(thread, scope, size);
}

bool sti_nursery_takes_result(const struct sti_thread *thread, size_t size)
{
    return size <= LARGEST_YOUNG && !home_of(thread->scope)->young.barred;
}

void *sti_nursery_malloc_result(struct sti_thread *thread, size_t size)
{
    return put(thread, home_of(thread->scope), size);
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

/* Of the log from here downwards. */
static void measure(struct sti_young *young, struct sti_nursery *nursery, size_t end)
{
    young->held = 0;
    while (nursery != NULL) {
        struct sti_heap_part part = mark_live(nursery, begin_in(nursery, young), end);
        /* Memory that the scope has freed may be that of a scope inside it by now, whose part of the log lies above. */
        sti_heap_part_unmark(&part, nursery->log + end, nursery->count - end);
        young->held += sum_and_unmark(&part);
        nursery = nursery == young->nursery ? NULL : nursery->below;
        end = nursery != NULL ? nursery->count : 0;
    }
    young->measured = young->held;
}

void sti_nursery_measure(struct sti_thread *thread, struct sti_scope *scope)
{
    if (scope->young.held == 0 || scope->is_inner_subtask)
        return;
    const struct sti_scope *inner = next_inside(thread, scope);
    if (inner != NULL)
        measure(&scope->young, inner->young.nursery, inner->young.begin);
    else
        measure(&scope->young, thread->nursery, thread->nursery != NULL ? thread->nursery->count : 0);
}

/* --- The end of a scope --- */

/* With nothing in its log: look from time to time how much has been left there. */
static void renew_if_full(struct sti_thread *thread)
{
    struct sti_nursery *nursery = thread->nursery;
    bool full = nursery->committed >= MAX_COMMITTED || nursery->filled >= MAX_FILLED;
    if (!full || nursery->openers > 0 || nursery->below != NULL)
        return;
    struct sti_backend_size size = sti_heap_size(nursery->heap);
    nursery->committed = size.blocks / 2;
    nursery->filled = size.held;
    if (size.blocks < MAX_COMMITTED && size.pages < MAX_PAGES)
        return;
    thread->nursery = NULL;
    retire(thread, nursery);
}

/* Those that were begun since the scope opened have nothing in their logs any more. The first of all stays. */
static void pop_to(struct sti_thread *thread, const struct sti_young *young)
{
    while (thread->nursery != young->nursery && (young->nursery != NULL || thread->nursery->below != NULL)) {
        struct sti_nursery *nursery = thread->nursery;
        thread->nursery = nursery->below;
        nursery->below = NULL;
        if (thread->spare_nursery == NULL && nursery->committed < MAX_COMMITTED && nursery->filled < MAX_FILLED)
            thread->spare_nursery = nursery;
        else
            retire(thread, nursery);
    }
    if (thread->nursery->count == 0)
        renew_if_full(thread);
}

static void forget(struct sti_thread *thread, const struct sti_young *young)
{
    for (struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        size_t begin = begin_in(nursery, young);
        nursery->committed += nursery->count - begin;
        nursery->count = begin;
        nursery->compacted = 0;
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
        forget(thread, young);
        return;
    }
    struct sti_young *outer = &home_of(scope->outer)->young;
    outer->held += young->held;
    outer->apart = outer->apart && young->apart;
    if (outer->held > 2 * outer->measured + MAX_UNKNOWN)
        measure(outer, thread->nursery, thread->nursery->count);
}

static size_t mark_all(struct sti_thread *thread, const struct sti_young *young)
{
    size_t live = 0;
    for (struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        live += mark_live(nursery, begin_in(nursery, young), nursery->count).live;
        if (nursery == young->nursery)
            break;
    }
    return live;
}

static void list_block(struct sti_single *single, void *block)
{
    single->block = block;
    single->size = sti_backend_usable_size(block);
}

static void list_marked(struct sti_thread *thread, const struct sti_young *young, struct sti_heap *list)
{
    for (struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        for (size_t i = begin_in(nursery, young); i < nursery->count; i++) {
            uintptr_t logged = (uintptr_t)nursery->log[i];
            if ((logged & STI_HEAP_LIVES) == 0)
                continue;
            nursery->log[i] = (void *)(logged & ~STI_HEAP_LIVES);
            list_block(&list->singles[list->count++], nursery->log[i]);
        }
        if (nursery == young->nursery)
            break;
    }
}

struct sti_heap *sti_nursery_list(struct sti_thread *thread, const struct sti_scope *scope)
{
    const struct sti_young *young = &scope->young;
    if (!is_logged(thread, young))
        return NULL;
    size_t live = mark_all(thread, young);
    struct sti_heap *list = live != 0 ? sti_process_calloc(1, sizeof *list + live * sizeof list->singles[0]) : NULL;
    if (list != NULL)
        list_marked(thread, young, list);
    return list;
}

static size_t logged_in(const struct sti_thread *thread, const struct sti_young *young)
{
    size_t logged = 0;
    for (const struct sti_nursery *nursery = thread->nursery; nursery != NULL; nursery = nursery->below) {
        logged += nursery->count - begin_in(nursery, young);
        if (nursery == young->nursery)
            break;
    }
    return logged;
}

/* With room for it behind what is listed already. */
static void list_copied(const struct sti_nursery *nursery, size_t begin, struct sti_heap *list)
{
    size_t count = nursery->count - begin;
    void **copy = sti_process_malloc((count + 1) * sizeof *copy);
    if (copy == NULL)
        return;
    memcpy(copy, nursery->log + begin, count * sizeof *copy);
    struct sti_heap_part part = sti_heap_part_mark(nursery->heap->theap, copy, count);
    for (size_t i = 0; i < count; i++) {
        if ((part.addresses[i] & STI_HEAP_LIVES) != 0)
            list_block(&list->singles[list->count++], (void *)(part.addresses[i] & ~STI_HEAP_LIVES));
    }
    sti_process_free(copy);
}

struct sti_heap *sti_nursery_list_inwards(struct sti_thread *thread, const struct sti_scope *scope)
{
    const struct sti_young *young = &scope->young;
    size_t logged = is_logged(thread, young) ? logged_in(thread, young) : 0;
    struct sti_heap *list = logged != 0 ? sti_process_calloc(1, sizeof *list + logged * sizeof list->singles[0]) : NULL;
    for (struct sti_nursery *nursery = thread->nursery; list != NULL && nursery != NULL; nursery = nursery->below) {
        list_copied(nursery, begin_in(nursery, young), list);
        if (nursery == young->nursery)
            break;
    }
    return list;
}

struct sti_heap *sti_nursery_begin_rollback(struct sti_thread *thread, struct sti_scope *scope)
{
    if (!close_part(thread, &scope->young))
        return NULL;
    struct sti_heap *list = sti_nursery_list(thread, scope);
    forget(thread, &scope->young); /* without memory for the list they stay allocated */
    return list;
}

void sti_nursery_give_back(struct sti_thread *thread)
{
    struct sti_nursery *nursery = thread->nursery;
    if (nursery != NULL && nursery->count == 0 && nursery->openers == 0 && nursery->below == NULL) {
        thread->nursery = NULL;
        retire(thread, nursery);
    }
    if (thread->spare_nursery != NULL)
        retire(thread, thread->spare_nursery);
    thread->spare_nursery = NULL;
}

void sti_nursery_end_thread(struct sti_thread *thread)
{
    while (thread->nursery != NULL) {
        struct sti_nursery *nursery = thread->nursery;
        thread->nursery = nursery->below;
        retire(thread, nursery);
    }
    sti_nursery_give_back(thread);
}
