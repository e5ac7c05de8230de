/* SPDX-License-Identifier: MIT
 *
 * What a task has opened: handles of libc, which a rollback closes; see handle.h. */
#include "handle.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/system.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/boundary.h"
#include "heap.h"
#include "mapping.h"
#include "nursery.h"
#include "roots.h"

/* --- The handles that scopes have open. A table by address, for closing one, and a list for each scope. */

#define LISTS ((size_t)1 << 12)
#define SINGLY 64 /* so many are looked for one by one, the rest together */

atomic_size_t sti_handle_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
STI_TABLE struct sti_handle *sti_handle_table[LISTS];

static struct sti_handle **list_of(const void *key)
{
    return &sti_handle_table[(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}
_Static_assert(LISTS == 1 << 12, "the hash has as many bits");

static void put_first(struct sti_handle *handle, struct sti_handle **list)
{
    handle->next = *list;
    handle->link = list;
    if (*list != NULL)
        (*list)->link = &handle->next;
    __atomic_store_n(list, handle, __ATOMIC_RELAXED);
}

void sti_handle_add(void *key, const struct sti_handle_kind *kind, const void *copy, size_t size)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread->scope->keeps > 0 || !sti_rule_is_on(STI_RULE_HANDLE))
        return;
    struct sti_handle *handle = sti_process_malloc(sizeof *handle + size);
    if (handle == NULL)
        return;
    *handle = (struct sti_handle){ .key = key, .kind = kind, .scope = thread->scope, .thread = thread };
    if (size > 0)
        memcpy(handle->copy, copy, size);
    struct sti_handle **list = list_of(key);
    sti_plain_mutex_lock(&lock);
    handle->next_of_table = *list;
    *list = handle;
    put_first(handle, &thread->scope->handles);
    atomic_fetch_add_explicit(&sti_handle_count, 1, memory_order_relaxed);
    sti_plain_mutex_unlock(&lock);
}

/* With the lock. */
static void take_off_table(struct sti_handle **link)
{
    *link = (*link)->next_of_table;
    atomic_fetch_sub_explicit(&sti_handle_count, 1, memory_order_relaxed);
}

struct sti_handle *sti_handle_take_noted(const void *key)
{
    struct sti_handle **link = list_of(key);
    sti_plain_mutex_lock(&lock);
    while (*link != NULL && (*link)->key != key)
        link = &(*link)->next_of_table;
    struct sti_handle *handle = *link;
    if (handle != NULL) {
        take_off_table(link);
        __atomic_store_n(handle->link, handle->next, __ATOMIC_RELAXED);
        if (handle->next != NULL)
            handle->next->link = handle->link;
    }
    sti_plain_mutex_unlock(&lock);
    return handle;
}

void sti_handle_drop(struct sti_handle *handle)
{
    sti_process_free(handle);
}

/* Nobody adds to the list meanwhile; others may take off it. */
static bool has_any(struct sti_handle *const *list)
{
    return __atomic_load_n(list, __ATOMIC_RELAXED) != NULL;
}

void sti_handles_move(struct sti_handle **from, struct sti_handle **to, struct sti_scope *scope)
{
    if (!has_any(from))
        return;
    sti_plain_mutex_lock(&lock);
    struct sti_handle *first = *from;
    struct sti_handle *last = NULL;
    for (struct sti_handle *handle = first; handle != NULL; handle = handle->next) {
        handle->scope = scope;
        handle->thread = scope != NULL ? scope->thread : NULL;
        last = handle;
    }
    if (last != NULL) {
        *from = NULL;
        last->next = *to;
        if (*to != NULL)
            (*to)->link = &last->next;
        *to = first;
        first->link = to;
    }
    sti_plain_mutex_unlock(&lock);
}

/* Off the scope's list and the table: nobody else finds them from now on. */
static struct sti_handle *take_all(struct sti_scope *scope)
{
    sti_plain_mutex_lock(&lock);
    struct sti_handle *all = scope->handles;
    scope->handles = NULL;
    for (const struct sti_handle *handle = all; handle != NULL; handle = handle->next) {
        struct sti_handle **link = list_of(handle->key);
        while (*link != handle)
            link = &(*link)->next_of_table;
        take_off_table(link);
    }
    sti_plain_mutex_unlock(&lock);
    return all;
}

void sti_handles_commit(struct sti_scope *scope, struct sti_scope *outer)
{
    if (!has_any(&scope->handles))
        return;
    if (outer != NULL) {
        sti_handles_move(&scope->handles, &outer->handles, outer);
        return;
    }
    for (struct sti_handle *handle = take_all(scope); handle != NULL;) {
        struct sti_handle *next = handle->next;
        sti_handle_drop(handle);
        handle = next;
    }
}

/* Those of scopes that nobody is in any more. */
static void forget_all(const struct sti_thread *thread)
{
    for (size_t i = 0; i < LISTS; i++) {
        struct sti_handle **link = &sti_handle_table[i];
        while (*link != NULL) {
            struct sti_handle *handle = *link;
            if (handle->thread == NULL || handle->thread != thread) {
                link = &handle->next_of_table;
            } else {
                take_off_table(link);
                sti_handle_drop(handle);
            }
        }
    }
}

void sti_handles_end_thread(const struct sti_thread *thread)
{
    if (atomic_load_explicit(&sti_handle_count, memory_order_relaxed) == 0)
        return;
    sti_plain_mutex_lock(&lock);
    forget_all(thread);
    sti_plain_mutex_unlock(&lock);
}

/* --- What has to be left open --- */

/* A handle each, for the scan of roots; the last has all that are more. */
struct groups {
    struct sti_heap *of[SINGLY + 1];
    unsigned count;
};

static size_t size_of_group(const struct groups *groups, const struct sti_handle *first)
{
    size_t size = 1;
    if (groups->count == SINGLY) {
        while ((first = first->next) != NULL)
            size++;
    }
    return size;
}

static void set_single(struct sti_single *single, void *key)
{
    single->block = key;
    single->size = sti_backend_has_made(key) ? sti_backend_usable_size(key) : sizeof(void *);
}

/* Returns them as a list, with the task's heaps behind; NULL: out of memory. */
static struct sti_heap *make_groups(struct groups *groups, const struct sti_handle *handle, struct sti_heap *heaps)
{
    struct sti_heap **end = &groups->of[0];
    groups->count = 0;
    while (handle != NULL) {
        size_t size = size_of_group(groups, handle);
        struct sti_heap *group = sti_process_calloc(1, sizeof *group + size * sizeof *group->singles);
        if (group == NULL)
            return NULL;
        group->is_of_libc = true;
        group->count = size;
        for (size_t i = 0; i < size; i++, handle = handle->next)
            set_single(&group->singles[i], handle->key);
        groups->of[groups->count++] = group;
        *end = group;
        end = &group->next;
    }
    *end = heaps;
    return groups->of[0];
}

static void drop_groups(struct groups *groups)
{
    for (unsigned i = 0; i < groups->count; i++) {
        sti_heap_map_drop(&groups->of[i]->map);
        sti_process_free(groups->of[i]);
    }
}

static void drop_maps(struct sti_heap *heaps)
{
    for (; heaps != NULL; heaps = heaps->next)
        sti_heap_map_drop(&heaps->map);
}

/* Whether a root leads to one of the group, or nobody can say. */
static bool stays_open(const struct groups *groups, unsigned i)
{
    return sti_heap_kept(groups->of[i < SINGLY ? i : SINGLY]) > 0;
}

static void close_all(struct sti_handle *handle, const struct groups *groups, bool none)
{
    for (unsigned i = 0; handle != NULL; i++) {
        struct sti_handle *next = handle->next;
        bool stays = none || (groups != NULL && stays_open(groups, i));
        sti_handle_fn *function = stays ? handle->kind->leave : handle->kind->close;
        if (function != NULL)
            STI_BOUNDARY_CALLBACK("handle", function, handle->key, handle->copy, NULL);
        if (!stays || function == NULL)
            sti_handle_drop(handle);
        handle = next;
    }
}

/* Nothing that a root leads to; and no code of the user's changes that meanwhile. */
static bool is_forgotten(const struct sti_heap *heaps, const struct sti_handle *handle)
{
    while (heaps != NULL && sti_heap_kept(heaps) == 0)
        heaps = heaps->next;
    while (handle != NULL && !handle->kind->calls_back)
        handle = handle->next;
    return heaps == NULL && handle == NULL;
}

/* Closing them may free blocks of the task's: the list of the young ones is of no use afterwards. */
static bool look_and_close(struct sti_scope *scope, struct sti_handle *all, const char *task)
{
    struct sti_heap *young = sti_nursery_list(scope->thread, scope);
    struct sti_heap *blocks = scope->heaps;
    if (young != NULL) {
        young->next = scope->heaps;
        blocks = young;
    }
    struct sti_heap *heaps = sti_mapped_list(scope->mapped, blocks);
    struct groups groups;
    struct sti_heap *list = make_groups(&groups, all, heaps);
    if (list != NULL)
        sti_roots_pin(list, task);
    bool forgotten = list != NULL && is_forgotten(heaps, all);
    drop_maps(blocks);
    sti_mapped_drop_list(heaps, blocks);
    sti_process_free(young);
    close_all(all, &groups, list == NULL);
    drop_groups(&groups);
    return forgotten;
}

bool sti_handles_rollback(struct sti_scope *scope, const char *task)
{
    if (!has_any(&scope->handles))
        return false;
    struct sti_handle *all = take_all(scope);
    if (sti_roots_are_scanned())
        return look_and_close(scope, all, task);
    close_all(all, NULL, false);
    return false;
}
