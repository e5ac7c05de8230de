/* SPDX-License-Identifier: MIT
 *
 * The record of what tasks have mapped; see mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "heap.h"
#include "nursery.h"

/* With the lock, but for held, which its thread reads at any time. That of a scope that never ends, as its thread has
 * left it otherwise, stays. */
struct sti_mapped {
    atomic_size_t held; /* bytes that count */
};

/* From the highest addresses to the lowest, as the system gives them out: so a new one mostly comes to the end. They
 * never overlap. */
static struct sti_mapping *table;
static size_t capacity;
atomic_size_t sti_mapping_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static _Thread_local bool inside;

#define MAX_NEW 4 /* a cut makes two, and a new one cuts two */

static size_t count_all(void)
{
    return atomic_load_explicit(&sti_mapping_count, memory_order_relaxed);
}

static bool mapping_has_room(void)
{
    if (count_all() + MAX_NEW <= capacity)
        return true;
    size_t larger = 2 * capacity + MAX_NEW;
    struct sti_mapping *grown = sti_process_lasting_realloc(table, larger * sizeof *grown);
    if (grown == NULL)
        return false;
    table = grown;
    capacity = larger;
    return true;
}

/* For those who put nothing in. */
static bool lock_table(void)
{
    if (inside)
        return false;
    inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    sti_real_mutex_lock(&lock);
    return true;
}

bool sti_mapping_lock(void)
{
    if (!lock_table())
        return false;
    bool has = mapping_has_room();
    if (!has)
        sti_mapping_unlock();
    return has;
}

void sti_mapping_unlock(void)
{
    sti_real_mutex_unlock(&lock);
    atomic_signal_fence(memory_order_seq_cst);
    inside = false;
}

/* --- The table --- */

/* Of the first that begins below the address. */
static size_t index_below(uintptr_t address)
{
    size_t low = 0;
    size_t high = count_all();
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].begin >= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sti_mapping *sti_mapping_last(uintptr_t begin, uintptr_t end)
{
    size_t at = index_below(end);
    return at < count_all() && table[at].end > begin ? &table[at] : NULL;
}

static void move_rest(size_t from, size_t to)
{
    size_t count = count_all();
    memmove(table + to, table + from, (count - from) * sizeof *table);
    atomic_store_explicit(&sti_mapping_count, count + to - from, memory_order_relaxed);
}

static void mapping_insert(struct sti_mapping mapping)
{
    size_t at = index_below(mapping.begin);
    move_rest(at, at + 1);
    table[at] = mapping;
}

/* To what its owner holds, or off that. */
static void mapping_count(const struct sti_mapping *mapping, bool is_there)
{
    size_t held = atomic_load_explicit(&mapping->owner->held, memory_order_relaxed);
    size_t size = mapping->kind == STI_MAPPING_CHARGED ? mapping->end - mapping->begin : 0;
    atomic_store_explicit(&mapping->owner->held, is_there ? held + size : held - size, memory_order_relaxed);
}

void sti_mapping_set_kind(struct sti_mapping *mapping, enum sti_mapping_kind kind)
{
    mapping_count(mapping, false);
    mapping->kind = kind;
    mapping_count(mapping, true);
}

static void cut_at(uintptr_t address)
{
    struct sti_mapping *mapping = sti_mapping_last(address, address + 1);
    if (mapping == NULL || mapping->begin == address)
        return;
    struct sti_mapping rest = *mapping;
    mapping->end = address;
    rest.begin = address;
    rest.continues = true;
    mapping_insert(rest);
}

void sti_mapping_cut(uintptr_t begin, uintptr_t end)
{
    cut_at(begin);
    cut_at(end);
}

static bool mapping_are_one(const struct sti_mapping *below, const struct sti_mapping *mapping)
{
    return mapping->continues && below->end == mapping->begin && below->kind == mapping->kind &&
           below->owner == mapping->owner;
}

void sti_mapping_join(uintptr_t begin, uintptr_t end)
{
    size_t at = index_below(end + 1);
    while (at + 1 < count_all() && table[at].begin >= begin) {
        if (mapping_are_one(&table[at + 1], &table[at])) {
            table[at + 1].end = table[at].end;
            move_rest(at + 1, at);
        } else {
            at++;
        }
    }
}

void sti_mapping_forget(uintptr_t begin, uintptr_t end)
{
    size_t first = index_below(end);
    size_t behind = first;
    for (; behind < count_all() && table[behind].end > begin; behind++)
        mapping_count(&table[behind], false);
    move_rest(behind, first);
}

void sti_mapping_put(uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind, struct sti_mapped *owner)
{
    sti_mapping_cut(begin, end);
    sti_mapping_forget(begin, end);
    const struct sti_mapping mapping = { .begin = begin, .end = end, .kind = kind, .owner = owner };
    mapping_insert(mapping);
    mapping_count(&mapping, true);
}

void sti_mapping_put_behind(uintptr_t begin, uintptr_t end)
{
    const struct sti_mapping *before = sti_mapping_last(begin - 1, begin);
    sti_mapping_put(begin, end, before->kind, before->owner);
    sti_mapping_last(begin, end)->continues = true;
    sti_mapping_join(begin, begin);
}

void sti_mapping_fill(uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind)
{
    struct sti_mapping *mapping;
    for (uintptr_t at = end; (mapping = sti_mapping_last(begin, at)) != NULL; at = mapping->begin) {
        sti_mapping_set_kind(mapping, kind);
        mapping->continues |= mapping->begin > begin;
    }
}

/* MS_ASYNC does nothing but to look. */
bool sti_mapping_has_hole(uintptr_t begin, uintptr_t end)
{
    return syscall(SYS_msync, begin, end - begin, MS_ASYNC) != 0 && errno == ENOMEM;
}

/* --- A task's heaps. --- */

static bool heaps_have(const struct sti_heap *heaps, const sti_backend_heap *backend)
{
    while (heaps != NULL && heaps->backend != backend)
        heaps = heaps->next;
    return heaps != NULL;
}

/* A task on several threads has heaps on each. */
bool sti_task_has(const struct sti_scope *scope, uintptr_t address)
{
    const void *block = (const void *)address;
    const sti_backend_heap *backend = sti_backend_has_made(block) ? sti_backend_heap_of(block) : NULL;
    if (backend == NULL || backend == sti_backend_heap_main())
        return false;
    for (const struct sti_scope *each = scope; each != NULL; each = each->outer) {
        if (each->share != NULL || heaps_have(each->heaps, backend))
            return true;
    }
    return sti_nursery_has(scope->thread, backend);
}

/* --- What one scope has mapped --- */

struct sti_mapped *sti_mapped_of(struct sti_scope *scope)
{
    if (__builtin_expect(scope->mapped == NULL, 0))
        scope->mapped = sti_process_calloc(1, sizeof *scope->mapped);
    return scope->mapped;
}

size_t sti_mapped_held(const struct sti_mapped *mapped)
{
    return mapped != NULL ? atomic_load_explicit(&mapped->held, memory_order_relaxed) : 0;
}

/* Of those without contents of the task's: any number may be an address in a reservation of some TiB. */
#define REACH ((size_t)1 << 30)

/* Contents of the task's could point anywhere. */
static bool mapping_is_listed(const struct sti_mapping *mapping, const struct sti_mapped *mapped, bool has_content)
{
    return mapping->owner == mapped && has_content == (mapping->kind == STI_MAPPING_CHARGED);
}

/* With the lock. */
static struct sti_heap *list_some(const struct sti_mapped *mapped, bool has_content, struct sti_heap *list)
{
    size_t count = 0;
    for (size_t i = 0; i < count_all(); i++)
        count += mapping_is_listed(&table[i], mapped, has_content);
    struct sti_heap *heap = sti_process_calloc(1, sizeof *heap + count * sizeof heap->singles[0]);
    if (heap == NULL)
        return NULL;
    heap->is_mapped = true;
    heap->reach = has_content ? 0 : REACH;
    heap->next = list;
    for (size_t i = 0; i < count_all(); i++) {
        const struct sti_mapping *at = &table[i];
        if (mapping_is_listed(at, mapped, has_content))
            heap->singles[heap->count++] =
                (struct sti_single){ .block = (void *)at->begin, .size = at->end - at->begin };
    }
    return heap;
}

void sti_mapped_drop_list(struct sti_heap *list, const struct sti_heap *end)
{
    while (list != end) {
        struct sti_heap *next = list->next;
        sti_heap_map_drop(&list->map);
        sti_process_free(list);
        list = next;
    }
}

struct sti_heap *sti_mapped_list(const struct sti_mapped *mapped, struct sti_heap *list)
{
    if (mapped == NULL || !lock_table())
        return list;
    struct sti_heap *first = list_some(mapped, true, list);
    struct sti_heap *both = first != NULL ? list_some(mapped, false, first) : NULL;
    sti_mapping_unlock();
    if (both == NULL && first != NULL)
        sti_mapped_drop_list(first, list);
    return both != NULL ? both : list;
}

struct sti_heap *sti_mapped_take(struct sti_mapped **mapped, struct sti_heap *list)
{
    list = sti_mapped_list(*mapped, list);
    sti_mapped_commit(mapped, NULL);
    return list;
}

/* With the lock. */
static void mapped_forget(const struct sti_mapped *mapped)
{
    size_t left = 0;
    size_t count = count_all();
    for (size_t i = 0; i < count; i++) {
        if (table[i].owner != mapped)
            table[left++] = table[i];
    }
    atomic_store_explicit(&sti_mapping_count, left, memory_order_relaxed);
}

static void mapped_hand_over(const struct sti_mapped *mapped, struct sti_mapped *other)
{
    for (size_t i = 0; i < count_all(); i++) {
        if (table[i].owner != mapped)
            continue;
        table[i].owner = other;
        mapping_count(&table[i], true);
    }
}

void sti_mapped_commit(struct sti_mapped **mapped, struct sti_mapped **outer)
{
    struct sti_mapped *inner = *mapped;
    *mapped = NULL;
    if (inner == NULL)
        return;
    if (outer != NULL && *outer == NULL) {
        *outer = inner;
        return;
    }
    if (!lock_table())
        return;
    if (outer != NULL)
        mapped_hand_over(inner, *outer);
    else
        mapped_forget(inner);
    sti_mapping_unlock();
    sti_process_free(inner);
}
