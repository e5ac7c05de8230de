/* SPDX-License-Identifier: MIT
 *
 * The record of what tasks have mapped; see mapping.h. */
#include "mapping.h"

#include <pthread.h>
#include <sys/mman.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "heap.h"

/* What one scope, or a share while nothing runs there, has mapped. With the lock, but for held, which its thread reads
 * at any time. */
struct sti_mapped {
    struct sti_mapping *first; /* the newest */
    atomic_size_t held;        /* bytes that count */
    size_t count;
    uint64_t id; /* no other ever has it */
    const struct sti_thread *thread;
    struct sti_mapped *next; /* of all */
    struct sti_mapped **link;
};

atomic_size_t sti_mapping_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static struct sti_mapping *root;
static STI_AT_FORKS struct sti_mapped *all;
static uint64_t last_id;
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
    mapping->owner_id = owner->id;
    mapping->next = owner->first;
    mapping->link = &owner->first;
    if (owner->first != NULL)
        owner->first->link = &mapping->next;
    owner->first = mapping;
    owner->count++;
    add(&owner->held, counted(mapping));
}

static void take_from_owner(struct sti_mapping *mapping)
{
    *mapping->link = mapping->next;
    if (mapping->next != NULL)
        mapping->next->link = mapping->link;
    mapping->owner->count--;
    add(&mapping->owner->held, -counted(mapping));
}

void sti_mapping_set_kind(struct sti_mapping *mapping, enum sti_mapping_kind kind)
{
    struct sti_mapped *owner = mapping->owner;
    take_from_owner(mapping);
    mapping->kind = kind;
    give_to(mapping, owner);
}

void sti_mapping_set_owner(struct sti_mapping *mapping, struct sti_mapped *owner)
{
    take_from_owner(mapping);
    give_to(mapping, owner);
}

void sti_mapping_grow(struct sti_mapping *mapping, uintptr_t end)
{
    struct sti_mapped *owner = mapping->owner;
    take_from_owner(mapping);
    mapping->end = end;
    give_to(mapping, owner);
}

struct sti_mapping *sti_mapping_new(void)
{
    return sti_process_malloc(sizeof(struct sti_mapping));
}

void sti_mapping_drop(struct sti_mapping *mapping)
{
    sti_process_free(mapping);
}

void sti_mapping_drop_all(struct sti_mapping *list)
{
    while (list != NULL) {
        struct sti_mapping *next = list->next;
        sti_mapping_drop(list);
        list = next;
    }
}

/* --- Changes --- */

static bool cut_at(uintptr_t address)
{
    struct sti_mapping *mapping = sti_mapping_first(address, address + 1);
    if (mapping == NULL || mapping->begin == address)
        return true;
    struct sti_mapping *rest = sti_mapping_new();
    if (rest == NULL)
        return false;
    *rest = (struct sti_mapping){ .begin = address, .end = mapping->end, .kind = mapping->kind, .continues = true };
    add(&mapping->owner->held, -counted(rest));
    mapping->end = address;
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
        if (!are_one(before, mapping)) {
            before = mapping;
            continue;
        }
        sti_mapping_take(mapping);
        sti_mapping_grow(before, mapping->end);
        sti_mapping_drop(mapping);
    }
}

void sti_mapping_take(struct sti_mapping *mapping)
{
    take_off_tree(mapping);
    take_from_owner(mapping);
}

struct sti_mapping *sti_mapping_take_all(uintptr_t begin, uintptr_t end)
{
    struct sti_mapping *list = NULL;
    struct sti_mapping *mapping;
    while ((mapping = sti_mapping_first(begin, end)) != NULL) {
        sti_mapping_take(mapping);
        mapping->next = list;
        list = mapping;
    }
    return list;
}

void sti_mapping_put(struct sti_mapping *mapping, uintptr_t begin, uintptr_t end, enum sti_mapping_kind kind,
                     struct sti_mapped *owner)
{
    if (__builtin_expect(sti_mapping_first(begin, end) != NULL, 0)) {
        sti_mapping_cut(begin, end); /* without memory for it more goes than has to */
        sti_mapping_drop_all(sti_mapping_take_all(begin, end));
    }
    *mapping = (struct sti_mapping){ .begin = begin, .end = end, .kind = kind };
    give_to(mapping, owner);
    insert(mapping);
}

/* --- What one scope has mapped --- */

struct sti_mapped *sti_mapped_of(struct sti_scope *scope)
{
    if (__builtin_expect(scope->mapped != NULL, 1))
        return scope->mapped;
    struct sti_mapped *mapped = sti_process_calloc(1, sizeof *mapped);
    if (mapped == NULL || !sti_mapping_lock()) {
        sti_process_free(mapped);
        return NULL;
    }
    mapped->id = ++last_id;
    mapped->thread = scope->thread;
    mapped->next = all;
    mapped->link = &all;
    if (all != NULL)
        all->link = &mapped->next;
    all = mapped;
    sti_mapping_unlock();
    return scope->mapped = mapped;
}

/* With the lock. */
static void end(struct sti_mapped *mapped)
{
    *mapped->link = mapped->next;
    if (mapped->next != NULL)
        mapped->next->link = mapped->link;
    sti_process_free(mapped);
}

size_t sti_mapped_held(const struct sti_mapped *mapped)
{
    return mapped != NULL ? atomic_load_explicit(&mapped->held, memory_order_relaxed) : 0;
}

bool sti_mapped_is_empty(const struct sti_mapped *mapped)
{
    if (mapped == NULL)
        return true;
    if (!sti_mapping_lock())
        return false;
    bool is_empty = mapped->count == 0;
    sti_mapping_unlock();
    return is_empty;
}

#define REACH ((size_t)1 << 20) /* of a reservation: any number may be an address in one of some TiB */

/* Those with contents of the task's, which could point anywhere; or reservations; or the others. */
enum content { OWN_CONTENT, NO_CONTENT, OTHER_CONTENT, CONTENTS };

static enum content content_of(const struct sti_mapping *mapping)
{
    if (mapping->kind == STI_MAPPING_CHARGED)
        return OWN_CONTENT;
    return mapping->kind == STI_MAPPING_RESERVED ? NO_CONTENT : OTHER_CONTENT;
}

/* With the lock. */
static struct sti_heap *list_some(const struct sti_mapped *mapped, enum content content, struct sti_heap *list)
{
    struct sti_heap *heap = sti_process_calloc(1, sizeof *heap + mapped->count * sizeof heap->singles[0]);
    if (heap == NULL)
        return NULL;
    heap->is_mapped = true;
    heap->is_opaque = content != OWN_CONTENT;
    heap->reach = content == NO_CONTENT ? REACH : 0;
    heap->next = list;
    for (const struct sti_mapping *mapping = mapped->first; mapping != NULL; mapping = mapping->next) {
        if (mapping->kind >= STI_MAPPING_DESCRIPTOR || content_of(mapping) != content)
            continue;
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

/* NULL: out of memory. With the lock. */
static struct sti_heap *list_all(const struct sti_mapped *mapped, struct sti_heap *list)
{
    struct sti_heap *first = list;
    for (enum content content = OWN_CONTENT; content < CONTENTS; content++) {
        struct sti_heap *next = list_some(mapped, content, first);
        if (next == NULL) {
            sti_mapped_drop_list(first, list);
            return NULL;
        }
        first = next;
    }
    return first;
}

struct sti_heap *sti_mapped_list(const struct sti_mapped *mapped, struct sti_heap *list)
{
    if (mapped == NULL || !sti_mapping_lock())
        return list;
    struct sti_heap *all_of_it = list_all(mapped, list);
    sti_mapping_unlock();
    return all_of_it != NULL ? all_of_it : list;
}

/* With the lock. */
static void forget(struct sti_mapped *mapped)
{
    while (mapped->first != NULL) {
        struct sti_mapping *mapping = mapped->first;
        sti_mapping_take(mapping);
        sti_mapping_drop(mapping);
    }
    end(mapped);
}

struct sti_heap *sti_mapped_take(struct sti_mapped **mapped, struct sti_heap *list)
{
    if (*mapped == NULL || !sti_mapping_lock())
        return list;
    struct sti_heap *all_of_it = list_all(*mapped, list);
    forget(*mapped);
    sti_mapping_unlock();
    *mapped = NULL;
    return all_of_it != NULL ? all_of_it : list;
}

struct sti_mapping *sti_mapped_take_kinds(struct sti_mapped *mapped, enum sti_mapping_kind first,
                                          enum sti_mapping_kind last)
{
    struct sti_mapping *list = NULL;
    struct sti_mapping *next;
    if (mapped == NULL || !sti_mapping_lock())
        return NULL;
    for (struct sti_mapping *mapping = mapped->first; mapping != NULL; mapping = next) {
        next = mapping->next;
        if (mapping->kind < first || mapping->kind > last)
            continue;
        sti_mapping_take(mapping);
        mapping->next = list;
        list = mapping;
    }
    sti_mapping_unlock();
    return list;
}

void sti_mapped_commit(struct sti_mapped **mapped, struct sti_mapped **outer)
{
    struct sti_mapped *inner = *mapped;
    *mapped = NULL;
    if (inner == NULL || !sti_mapping_lock())
        return;
    if (outer == NULL) {
        forget(inner);
    } else if (*outer == NULL) {
        *outer = inner;
    } else {
        while (inner->first != NULL) {
            struct sti_mapping *mapping = inner->first;
            take_from_owner(mapping);
            give_to(mapping, *outer);
        }
        end(inner);
    }
    sti_mapping_unlock();
}

void sti_mapped_set_thread(struct sti_mapped *mapped, const struct sti_thread *thread)
{
    if (mapped == NULL || !sti_mapping_lock())
        return;
    mapped->thread = thread;
    sti_mapping_unlock();
}

/* Of scopes that nobody is in any more. */
static void forget_all(const struct sti_thread *thread)
{
    struct sti_mapped *next;
    for (struct sti_mapped *mapped = all; mapped != NULL; mapped = next) {
        next = mapped->next;
        if (mapped->thread == thread)
            forget(mapped);
    }
}

void sti_mapped_end_thread(const struct sti_thread *thread)
{
    if (!sti_mapping_lock())
        return;
    forget_all(thread);
    sti_mapping_unlock();
}
