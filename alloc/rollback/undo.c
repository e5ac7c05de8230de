/* SPDX-License-Identifier: MIT
 *
 * The undo log; see undo.h. */
#include "undo.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "alloc/heap/heap.h"
#include "alloc/heap/mapping.h"
#include "alloc/heap/nursery.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "roots.h"

/* --- The entries: a list for each log, and a table by key, for ending one. One lock for all: beside what it costs to
 * open a handle, that is nothing. Only its thread adds to a scope's log, and ends it; any thread may take an entry off
 * it meanwhile. */

struct sti_undo {
    const struct sti_undo_kind *kind;
    void *key;
    struct sti_undo_log *log;
    struct sti_undo *next;          /* of the log, older */
    struct sti_undo **link;         /* what points to it */
    struct sti_undo *next_of_table; /* with the same hash */
    bool stays;                     /* a root leads to it */
    _Alignas(max_align_t) unsigned char before[];
};

/* That of a scope that never ends, as its thread has left it otherwise, stays, and its entries with it. */
struct sti_undo_log {
    struct sti_undo *first; /* the newest */
};

#define LISTS ((size_t)1 << 12)

atomic_size_t sti_undo_count;

STI_TABLE struct sti_undo *sti_undo_table[LISTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;

/* False: a signal handler has found this thread in here, and nothing can be noted now. */
static bool undo_lock(void)
{
    if (inside)
        return false;
    inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    sti_real_mutex_lock(&mutex);
    return true;
}

static void undo_unlock(void)
{
    sti_real_mutex_unlock(&mutex);
    atomic_signal_fence(memory_order_seq_cst);
    inside = false;
}

static struct sti_undo **undo_list(const void *key)
{
    return &sti_undo_table[(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}
_Static_assert(LISTS == 1 << 12, "the hash has as many bits");

/* With the lock, as what follows. */
static bool is_noted(const struct sti_undo_log *log, const struct sti_undo_kind *kind, const void *key)
{
    const struct sti_undo *entry = *undo_list(key);
    while (entry != NULL && (entry->log != log || entry->kind != kind || entry->key != key))
        entry = entry->next_of_table;
    return entry != NULL;
}

static void undo_put_first(struct sti_undo *entry, struct sti_undo_log *log)
{
    entry->log = log;
    entry->next = log->first;
    entry->link = &log->first;
    if (log->first != NULL)
        log->first->link = &entry->next;
    log->first = entry;
}

static void undo_take_off(struct sti_undo *entry)
{
    struct sti_undo **link = undo_list(entry->key);
    while (*link != entry)
        link = &(*link)->next_of_table;
    *link = entry->next_of_table;
    *entry->link = entry->next;
    if (entry->next != NULL)
        entry->next->link = entry->link;
    atomic_fetch_sub_explicit(&sti_undo_count, 1, memory_order_relaxed);
}

/* Without the lock, like all that allocates. */
static void drop_all(struct sti_undo *list)
{
    while (list != NULL) {
        struct sti_undo *next = list->next;
        sti_process_free(list);
        list = next;
    }
}

/* By this scope: what is noted then knows how it was before. */
static bool is_changed(const struct sti_undo_log *log, const struct sti_undo_kind *kind, const void *key)
{
    if (!undo_lock())
        return false;
    bool noted = is_noted(log, kind, key);
    undo_unlock();
    return noted;
}

static struct sti_undo_log *log_of(struct sti_scope *scope)
{
    if (scope->undo == NULL)
        scope->undo = sti_process_calloc(1, sizeof *scope->undo);
    return scope->undo;
}

bool sti_undo_add(const struct sti_undo_kind *kind, void *key, const void *before)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread->scope->keeps > 0 || !sti_rule_is_on(kind->rule))
        return true;
    struct sti_undo_log *log = log_of(thread->scope);
    if (log == NULL)
        return false;
    if (kind->sort != STI_UNDO_OF_LIBC && is_changed(log, kind, key))
        return true;
    struct sti_undo *entry = sti_process_malloc(sizeof *entry + kind->size);
    if (entry == NULL)
        return false;
    *entry = (struct sti_undo){ .kind = kind, .key = key };
    if (kind->size > 0)
        memcpy(entry->before, before, kind->size);
    if (!undo_lock()) {
        sti_process_free(entry);
        return kind->sort != STI_UNDO_OF_PAGES;
    }
    struct sti_undo **list = undo_list(key);
    entry->next_of_table = *list;
    *list = entry;
    undo_put_first(entry, log);
    atomic_fetch_add_explicit(&sti_undo_count, 1, memory_order_relaxed);
    undo_unlock();
    return true;
}

bool sti_undo_end_noted(const struct sti_undo_kind *kind, const void *key, void *before)
{
    const struct sti_thread *thread = sti_thread_metered;
    const struct sti_undo_log *own = thread != NULL ? thread->scope->undo : NULL;
    struct sti_undo *ended = NULL;
    bool was_own = false;
    if (!undo_lock())
        return false;
    for (struct sti_undo *entry = *undo_list(key), *next; entry != NULL; entry = next) {
        next = entry->next_of_table;
        if (entry->kind != kind || entry->key != key)
            continue;
        undo_take_off(entry);
        entry->next = ended;
        ended = entry;
        if (entry->log != own)
            continue;
        was_own = true;
        if (before != NULL)
            memcpy(before, entry->before, kind->size);
    }
    undo_unlock();
    drop_all(ended);
    return was_own;
}

/* --- The end of a scope. Its thread, outside of it, which no signal handler finds in here. --- */

/* Off the log and the table, as a list, the newest first: those of the sorts up to this one; where there is an outer
 * log, of these what that has noted too. With the lock. */
static struct sti_undo *undo_log_take(struct sti_undo_log *log, enum sti_undo_sort last,
                                      const struct sti_undo_log *outer)
{
    struct sti_undo *list = NULL;
    struct sti_undo **end = &list;
    for (struct sti_undo *entry = log->first, *next; entry != NULL; entry = next) {
        next = entry->next;
        if (entry->kind->sort > last || (outer != NULL && !is_noted(outer, entry->kind, entry->key)))
            continue;
        undo_take_off(entry);
        entry->next = NULL;
        *end = entry;
        end = &entry->next;
    }
    return list;
}

static struct sti_undo *take_locked(struct sti_undo_log *log, enum sti_undo_sort last)
{
    undo_lock();
    struct sti_undo *list = undo_log_take(log, last, NULL);
    undo_unlock();
    return list;
}

/* The entries of the one log are the newest of the other. With the lock. */
static void undo_log_append(struct sti_undo_log *from, struct sti_undo_log *to)
{
    struct sti_undo **end = &from->first;
    for (; *end != NULL; end = &(*end)->next)
        (*end)->log = to;
    *end = to->first;
    if (to->first != NULL)
        to->first->link = end;
    to->first = from->first;
    if (to->first != NULL)
        to->first->link = &to->first;
}

/* What both have noted the outer one knows from before. */
static void undo_log_hand_over(struct sti_undo_log **from, struct sti_undo_log **to)
{
    struct sti_undo_log *log = *from;
    struct sti_undo *ended = NULL;
    if (log == NULL)
        return;
    *from = NULL;
    undo_lock();
    if (*to == NULL) {
        *to = log;
        log = NULL;
    } else {
        ended = undo_log_take(log, STI_UNDO_OF_PAGES, *to);
        undo_log_append(log, *to);
    }
    undo_unlock();
    sti_process_free(log);
    drop_all(ended);
}

void sti_undo_commit(struct sti_scope *scope)
{
    struct sti_undo_log *log = scope->undo;
    if (log == NULL)
        return;
    if (scope->outer != NULL) {
        undo_log_hand_over(&scope->undo, &scope->outer->undo);
        return;
    }
    scope->undo = NULL;
    drop_all(take_locked(log, STI_UNDO_OF_LIBC));
    sti_process_free(log);
}

/* Closing a handle may call the application, and be a point of cancellation. */
static void undo_entry(struct sti_scope *scope, struct sti_undo *entry)
{
    if (entry->kind->sort == STI_UNDO_OF_LIBC)
        STI_BOUNDARY_CALLBACK(entry->kind->undo, scope, entry->key, entry->before);
    else
        entry->kind->undo(scope, entry->key, entry->before);
}

static void undo_all(struct sti_scope *scope, struct sti_undo *list)
{
    while (list != NULL) {
        struct sti_undo *next = list->next;
        const struct sti_undo_kind *kind = list->kind;
        if (!list->stays)
            undo_entry(scope, list);
        if (!list->stays || kind->leave == NULL || !kind->leave(list->key, list->before))
            sti_process_free(list);
        list = next;
    }
}

/* --- What has to be left open --- */

static void set_single(struct sti_single *single, void *key)
{
    single->block = key;
    single->size = sti_backend_has_made(key) ? sti_backend_usable_size(key) : sizeof(void *);
}

/* As blocks for the scan of roots, with the task's heaps behind; NULL: out of memory. */
static struct sti_heap *as_blocks(const struct sti_undo *handles, struct sti_heap *heaps)
{
    size_t count = 0;
    for (const struct sti_undo *entry = handles; entry != NULL; entry = entry->next)
        count++;
    struct sti_heap *blocks = sti_process_calloc(1, sizeof *blocks + count * sizeof *blocks->singles);
    if (blocks == NULL)
        return NULL;
    blocks->is_of_libc = true;
    blocks->next = heaps;
    for (const struct sti_undo *entry = handles; entry != NULL; entry = entry->next)
        set_single(&blocks->singles[blocks->count++], entry->key);
    return blocks;
}

static void undo_note_retained(uintptr_t block, size_t size, bool is_marked, void *handles)
{
    (void)size;
    for (struct sti_undo *entry = is_marked ? handles : NULL; entry != NULL; entry = entry->next)
        entry->stays = entry->stays || (uintptr_t)entry->key == block;
}

static void have_all_stay(struct sti_undo *handles)
{
    for (; handles != NULL; handles = handles->next)
        handles->stays = true;
}

/* Those that a root leads to; or all, where nobody can say. */
static void undo_look_at_handles(struct sti_undo *handles, struct sti_heap *heaps, const char *task)
{
    struct sti_heap *blocks = as_blocks(handles, heaps);
    if (blocks == NULL) {
        have_all_stay(handles);
        return;
    }
    sti_roots_pin(blocks, task);
    if (blocks->pinned)
        have_all_stay(handles);
    else
        sti_heap_map_visit(blocks, undo_note_retained, handles);
    sti_heap_map_drop(&blocks->map);
    sti_process_free(blocks);
}

/* A block of the task's that stays may be what leads to a handle. */
static void look_with_heaps(struct sti_scope *scope, struct sti_undo *handles, const char *task)
{
    struct sti_heap *young = sti_nursery_list(scope->thread, scope);
    struct sti_heap *blocks = scope->heaps;
    if (young != NULL) {
        young->next = scope->heaps;
        blocks = young;
    }
    struct sti_heap *heaps = sti_mapped_list(scope->mapped, blocks);
    undo_look_at_handles(handles, heaps, task);
    for (struct sti_heap *heap = blocks; heap != NULL; heap = heap->next)
        sti_heap_map_drop(&heap->map);
    sti_mapped_drop_list(heaps, blocks);
    sti_process_free(young);
}

/* The values that the thread has back are no roots any more when the handles are looked at, and the pages can be
 * read. */
void sti_undo_rollback(struct sti_scope *scope, const char *task)
{
    struct sti_undo_log *log = scope->undo;
    if (log == NULL)
        return;
    scope->undo = NULL;
    undo_all(scope, take_locked(log, STI_UNDO_OF_PAGES));
    struct sti_undo *handles = take_locked(log, STI_UNDO_OF_LIBC);
    sti_process_free(log);
    if (handles != NULL && sti_roots_are_scanned())
        look_with_heaps(scope, handles, task);
    undo_all(scope, handles);
}

void sti_undo_hand_in(struct sti_scope *subtask, struct sti_undo_log **group)
{
    if (subtask->undo == NULL)
        return;
    undo_all(subtask, take_locked(subtask->undo, STI_UNDO_OF_THREAD));
    undo_log_hand_over(&subtask->undo, group);
}

void sti_undo_take_over(struct sti_undo_log **group, struct sti_scope *scope)
{
    undo_log_hand_over(group, &scope->undo);
}
