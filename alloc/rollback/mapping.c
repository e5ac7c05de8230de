/* SPDX-License-Identifier: MIT
 *
 * The record of what tasks have mapped; see mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/base/backend.h"
#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "heap.h"
#include "nursery.h"

#ifndef MADV_GUARD_REMOVE /* glibc 2.36 has it not yet */
#define MADV_GUARD_REMOVE 103
#endif

/* With the lock, but for held, which its thread reads at any time. That of a scope that never ends, as its thread has
 * left it otherwise, stays. */
struct sti_mapped {
    struct sti_mapping *first; /* the newest */
    atomic_size_t held;        /* bytes that count */
};

atomic_size_t sti_mapping_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static struct sti_mapping *root;
static _Thread_local bool inside;

/* With the lock: nobody else changes it. */
static void add(atomic_size_t *number, size_t more)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + more, memory_order_relaxed);
}

bool sti_mapping_lock(void)
{
    if (inside)
        return false;
    inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    sti_plain_mutex_lock(&lock);
    return true;
}

void sti_mapping_unlock(void)
{
    sti_plain_mutex_unlock(&lock);
    atomic_signal_fence(memory_order_seq_cst);
    inside = false;
}

/* --- The tree: a treap (Seidel and Aragon, "Randomized search trees", 1996). Its stretches never overlap. --- */

static uint64_t priority(const struct sti_mapping *mapping)
{
    return (uint64_t)(uintptr_t)mapping * UINT64_C(0x9e3779b97f4a7c15);
}

/* The place of the first on the way to this address that is no more important. */
static struct sti_mapping **place_for(uintptr_t begin, uint64_t importance)
{
    struct sti_mapping **place = &root;
    while (*place != NULL && priority(*place) > importance)
        place = begin < (*place)->begin ? &(*place)->left : &(*place)->right;
    return place;
}

static void insert(struct sti_mapping *mapping)
{
    struct sti_mapping **place = place_for(mapping->begin, priority(mapping));
    struct sti_mapping *below = *place;
    struct sti_mapping **left = &mapping->left;
    struct sti_mapping **right = &mapping->right;
    *place = mapping;
    while (below != NULL) {
        if (below->begin < mapping->begin) {
            *left = below;
            left = &below->right;
            below = below->right;
        } else {
            *right = below;
            right = &below->left;
            below = below->left;
        }
    }
    *left = NULL;
    *right = NULL;
    add(&sti_mapping_count, 1);
}

static void take_off_tree(const struct sti_mapping *mapping)
{
    struct sti_mapping **place = place_for(mapping->begin, priority(mapping));
    struct sti_mapping *left = mapping->left;
    struct sti_mapping *right = mapping->right;
    while (left != NULL && right != NULL) {
        if (priority(left) > priority(right)) {
            *place = left;
            place = &left->right;
            left = left->right;
        } else {
            *place = right;
            place = &right->left;
            right = right->left;
        }
    }
    *place = left != NULL ? left : right;
    add(&sti_mapping_count, (size_t)-1);
}

struct sti_mapping *sti_mapping_first(uintptr_t begin, uintptr_t end)
{
    struct sti_mapping *lowest = NULL;
    for (struct sti_mapping *at = root; at != NULL;) {
        if (at->end > begin) {
            lowest = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return lowest != NULL && lowest->begin < end ? lowest : NULL;
}

/* --- Whose they are --- */

static size_t counted(const struct sti_mapping *mapping)
{
    return mapping->kind == STI_MAPPING_CHARGED ? mapping->end - mapping->begin : 0;
}

static void give_to(struct sti_mapping *mapping, struct sti_mapped *owner)
{
    mapping->owner = owner;
    mapping->next = owner->first;
    mapping->link = &owner->first;
    if (owner->first != NULL)
        owner->first->link = &mapping->next;
    owner->first = mapping;
    add(&owner->held, counted(mapping));
}

static void take_from_owner(struct sti_mapping *mapping)
{
    *mapping->link = mapping->next;
    if (mapping->next != NULL)
        mapping->next->link = mapping->link;
    add(&mapping->owner->held, -counted(mapping));
}

static void change(struct sti_mapping *mapping, uintptr_t end, enum sti_mapping_kind kind, struct sti_mapped *owner)
{
    take_from_owner(mapping);
    mapping->end = end;
    mapping->kind = kind;
    give_to(mapping, owner);
}

void sti_mapping_set_kind(struct sti_mapping *mapping, enum sti_mapping_kind kind)
{
    change(mapping, mapping->end, kind, mapping->owner);
}

void sti_mapping_grow(struct sti_mapping *mapping, uintptr_t end)
{
    change(mapping, end, mapping->kind, mapping->owner);
}

struct sti_mapping *sti_mapping_new(void)
{
    return sti_process_malloc(sizeof(struct sti_mapping));
}

void sti_mapping_drop(struct sti_mapping *mapping)
{
    sti_process_free(mapping);
}

/* --- Changes --- */

static void take(struct sti_mapping *mapping)
{
    take_off_tree(mapping);
    take_from_owner(mapping);
}

static void forget(struct sti_mapping *mapping)
{
    take(mapping);
    sti_mapping_drop(mapping);
}

static bool cut_at(uintptr_t address)
{
    struct sti_mapping *mapping = sti_mapping_first(address, address + 1);
    if (mapping == NULL || mapping->begin == address)
        return true;
    struct sti_mapping *rest = sti_mapping_new();
    if (rest == NULL)
        return false;
    *rest = (struct sti_mapping){ .begin = address, .end = mapping->end, .kind = mapping->kind, .continues = true };
    sti_mapping_grow(mapping, address);
    give_to(rest, mapping->owner);
    insert(rest);
    return true;
}

bool sti_mapping_cut(uintptr_t begin, uintptr_t end)
{
    return cut_at(begin) && cut_at(end);
}

static bool are_one(const struct sti_mapping *before, const struct sti_mapping *mapping)
{
    return mapping->continues && before != NULL && before->end == mapping->begin && before->kind == mapping->kind &&
           before->owner == mapping->owner;
}

void sti_mapping_join(uintptr_t begin, uintptr_t end)
{
    struct sti_mapping *before = sti_mapping_first(begin - 1, begin);
    struct sti_mapping *mapping;
    for (uintptr_t at = begin; at <= end && (mapping = sti_mapping_first(at, end + 1)) != NULL; at = before->end) {
        if (are_one(before, mapping)) {
            uintptr_t grown = mapping->end;
            forget(mapping);
            sti_mapping_grow(before, grown);
        } else {
            before = mapping;
        }
    }
}

void sti_mapping_forget(uintptr_t begin, uintptr_t end)
{
    struct sti_mapping *mapping;
    while ((mapping = sti_mapping_first(begin, end)) != NULL)
        forget(mapping);
}

void sti_mapping_put(struct sti_mapping *mapping, uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind,
                     struct sti_mapped *owner)
{
    if (__builtin_expect(sti_mapping_first(begin, end) != NULL, 0)) {
        sti_mapping_cut(begin, end); /* without memory for it more goes than has to */
        sti_mapping_forget(begin, end);
    }
    *mapping = (struct sti_mapping){ .begin = begin, .end = end, .kind = kind };
    give_to(mapping, owner);
    insert(mapping);
}

void sti_mapping_fill(uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind)
{
    struct sti_mapping *mapping = sti_mapping_first(begin, end);
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        if (sti_mapping_is_of_heap(mapping->kind))
            continue;
        sti_mapping_set_kind(mapping, kind);
        mapping->continues |= mapping->begin > begin;
    }
}

/* MS_ASYNC does nothing but to look. */
bool sti_mapping_has_hole(uintptr_t begin, uintptr_t end)
{
    return syscall(SYS_msync, begin, end - begin, MS_ASYNC) != 0 && errno == ENOMEM;
}

/* --- Pages of its own heap of which a task has told the kernel something. --- */

static bool has(const struct sti_heap *heaps, const sti_backend_heap *backend)
{
    while (heaps != NULL && heaps->backend != backend)
        heaps = heaps->next;
    return heaps != NULL;
}

/* A task on several threads has heaps on each. */
bool sti_protection_concerns(const struct sti_thread *thread, uintptr_t page)
{
    const void *address = (const void *)page;
    const sti_backend_heap *backend = sti_backend_has_made(address) ? sti_backend_heap_of(address) : NULL;
    if (backend == NULL || backend == sti_backend_heap_main())
        return false;
    for (const struct sti_scope *scope = thread->scope; scope != NULL; scope = scope->outer) {
        if (scope->share != NULL || has(scope->heaps, backend))
            return true;
    }
    return sti_nursery_has(thread, backend);
}

bool sti_protection_note(struct sti_scope *scope, uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind)
{
    struct sti_mapped *mapped = sti_mapped_of(scope);
    struct sti_mapping *record = mapped != NULL ? sti_mapping_new() : NULL;
    if (record == NULL)
        return false;
    if (!sti_mapping_lock()) {
        sti_mapping_drop(record);
        return true;
    }
    struct sti_mapping *older = sti_mapping_first(begin, end);
    if (older != NULL && older->kind == STI_MAPPING_ADVISED)
        kind = STI_MAPPING_ADVISED;
    if (older != NULL && older->begin <= begin && older->end >= end) {
        sti_mapping_set_kind(older, kind);
        sti_mapping_drop(record);
    } else {
        sti_mapping_put(record, begin, end, kind, mapped);
    }
    sti_mapping_unlock();
    return true;
}

/* Without memory to cut there more is left than has to, and harms nobody. */
void sti_protection_forget(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return;
    struct sti_mapping *mapping;
    for (uintptr_t at = begin; at < end && (mapping = sti_mapping_first(at, end)) != NULL;) {
        at = mapping->end;
        if (mapping->kind != STI_MAPPING_PROTECTED || !sti_mapping_cut(begin, end))
            continue;
        forget(sti_mapping_first(mapping->begin > begin ? mapping->begin : begin, end));
    }
    sti_mapping_unlock();
}

/* All that it may have been told. By system calls, which the overrides do not see. */
static void make_plain(uintptr_t begin, size_t size)
{
    const int advices[] = { MADV_DOFORK, MADV_KEEPONFORK, MADV_DODUMP, MADV_GUARD_REMOVE };
    if (!sti_backend_has_made((void *)begin))
        return;
    sti_protect_plainly((void *)begin, size, PROT_READ | PROT_WRITE, STI_NO_KEY);
    syscall(SYS_munlock, begin, size);
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        syscall(SYS_madvise, begin, size, advices[i]);
}

void sti_protections_rollback(struct sti_mapped *mapped)
{
    struct sti_mapping *next;
    if (mapped == NULL || !sti_mapping_lock())
        return;
    for (struct sti_mapping *at = mapped->first; at != NULL; at = next) {
        next = at->next;
        if (!sti_mapping_is_of_heap(at->kind))
            continue;
        make_plain(at->begin, at->end - at->begin);
        forget(at);
    }
    sti_mapping_unlock();
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

#define REACH ((size_t)1 << 20) /* of a reservation: any number may be an address in one of some TiB */

/* Those with contents of the task's, which could point anywhere; or reservations; or the others. */
enum content { OWN_CONTENT, NO_CONTENT, OTHER_CONTENT, CONTENTS };

static bool has_content(const struct sti_mapping *mapping, enum content content)
{
    if (sti_mapping_is_of_heap(mapping->kind))
        return false;
    return content == (mapping->kind == STI_MAPPING_CHARGED    ? OWN_CONTENT
                       : mapping->kind == STI_MAPPING_RESERVED ? NO_CONTENT
                                                               : OTHER_CONTENT);
}

/* With the lock. */
static struct sti_heap *list_some(const struct sti_mapped *mapped, enum content content, struct sti_heap *list)
{
    size_t count = 0;
    for (const struct sti_mapping *mapping = mapped->first; mapping != NULL; mapping = mapping->next)
        count += has_content(mapping, content);
    struct sti_heap *heap = sti_process_calloc(1, sizeof *heap + count * sizeof heap->singles[0]);
    if (heap == NULL)
        return NULL;
    heap->is_mapped = true;
    heap->is_opaque = content != OWN_CONTENT;
    heap->reach = content == NO_CONTENT ? REACH : 0;
    heap->next = list;
    for (const struct sti_mapping *mapping = mapped->first; mapping != NULL; mapping = mapping->next) {
        if (has_content(mapping, content))
            heap->singles[heap->count++] =
                (struct sti_single){ .block = (void *)mapping->begin, .size = mapping->end - mapping->begin };
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

/* The list alone: out of memory. With the lock. */
static struct sti_heap *list_all(const struct sti_mapped *mapped, struct sti_heap *list)
{
    struct sti_heap *first = list;
    for (enum content content = OWN_CONTENT; content < CONTENTS; content++) {
        struct sti_heap *next = list_some(mapped, content, first);
        if (next == NULL) {
            sti_mapped_drop_list(first, list);
            return list;
        }
        first = next;
    }
    return first;
}

struct sti_heap *sti_mapped_list(const struct sti_mapped *mapped, struct sti_heap *list)
{
    if (mapped == NULL || !sti_mapping_lock())
        return list;
    list = list_all(mapped, list);
    sti_mapping_unlock();
    return list;
}

struct sti_heap *sti_mapped_take(struct sti_mapped **mapped, struct sti_heap *list)
{
    list = sti_mapped_list(*mapped, list);
    sti_mapped_commit(mapped, NULL);
    return list;
}

/* To the other one; NULL: to nobody. With the lock. */
static void hand_over(struct sti_mapped *mapped, struct sti_mapped *other)
{
    while (mapped->first != NULL) {
        if (other == NULL)
            forget(mapped->first);
        else
            change(mapped->first, mapped->first->end, mapped->first->kind, other);
    }
    sti_process_free(mapped);
}

void sti_mapped_commit(struct sti_mapped **mapped, struct sti_mapped **outer)
{
    struct sti_mapped *inner = *mapped;
    *mapped = NULL;
    if (outer != NULL && *outer == NULL) {
        *outer = inner;
    } else if (inner != NULL && sti_mapping_lock()) {
        hand_over(inner, outer != NULL ? *outer : NULL);
        sti_mapping_unlock();
    }
}
