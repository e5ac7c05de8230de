/* SPDX-License-Identifier: MIT
 *
 * What a task does to pages that are there already; see pages.h. */
#include "pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/base/backend.h"
#include "alloc/base/lasting.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "heap.h"
#include "mapping.h"
#include "nursery.h"

/* --- Mappings in a given place. By system calls, as the overrides would take the lock again. --- */

#define PAGE ((size_t)4096)

static uintptr_t map_if_free(uintptr_t begin, uintptr_t end)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    return (uintptr_t)syscall(SYS_mmap, begin, end - begin, PROT_NONE, flags, -1, 0);
}

static void unmap(uintptr_t begin, uintptr_t end)
{
    syscall(SYS_munmap, begin, end - begin);
}

static bool is_free(uintptr_t begin, uintptr_t end)
{
    uintptr_t made = map_if_free(begin, end);
    if (made != (uintptr_t)MAP_FAILED)
        unmap(made, made + (end - begin));
    return made == begin;
}

/* MS_ASYNC does nothing but to look. */
static bool has_hole(uintptr_t begin, uintptr_t end)
{
    return syscall(SYS_msync, begin, end - begin, MS_ASYNC) != 0 && errno == ENOMEM;
}

static bool is_mapped(uintptr_t begin, uintptr_t end)
{
    return !has_hole(begin, end);
}

/* The end of what is like this from the beginning on. */
static uintptr_t end_of(uintptr_t begin, uintptr_t end, bool is_like_this(uintptr_t begin, uintptr_t end))
{
    if (begin == end || is_like_this(begin, end))
        return end;
    uintptr_t is = begin;
    uintptr_t is_not = end;
    while (is_not - is > PAGE) {
        uintptr_t middle = is + (is_not - is) / PAGE / 2 * PAGE;
        if (is_like_this(is, middle))
            is = middle;
        else
            is_not = middle;
    }
    return is;
}

uintptr_t sti_place_mapped_end(uintptr_t begin, uintptr_t end)
{
    return end_of(begin, end, is_mapped);
}

uintptr_t sti_place_free_end(uintptr_t begin, uintptr_t end)
{
    uintptr_t free_end = end_of(begin, end, is_free);
    return free_end > begin ? free_end : begin + PAGE;
}

static bool put_claim(uintptr_t begin, uintptr_t end, struct sti_mapped *owner)
{
    struct sti_mapping *mapping = sti_mapping_new();
    if (mapping == NULL) {
        unmap(begin, end);
        return false;
    }
    sti_mapping_put(mapping, begin, end, STI_MAPPING_CLAIMED, owner);
    return true;
}

/* Of which no task has anything. Where it is free in parts, each half is looked at; a call that fails otherwise than
 * because of what is there will fail as a whole. */
static bool claim_free(uintptr_t begin, uintptr_t end, struct sti_mapped *owner)
{
    uintptr_t made = map_if_free(begin, end);
    if (made == begin)
        return put_claim(begin, end, owner);
    if (made == (uintptr_t)MAP_FAILED && errno != EEXIST)
        return errno != ENOMEM;
    if (made != (uintptr_t)MAP_FAILED)
        unmap(made, made + (end - begin)); /* a kernel that does not know the flag takes it for a hint */
    uintptr_t middle = begin + (end - begin) / PAGE / 2 * PAGE;
    return middle == begin || !has_hole(begin, end) ||
           (claim_free(begin, middle, owner) && claim_free(middle, end, owner));
}

bool sti_place_claim(uintptr_t begin, uintptr_t end, struct sti_mapped *owner)
{
    bool is_claimed = true;
    uintptr_t next;
    for (uintptr_t at = begin; is_claimed && at < end; at = next) {
        const struct sti_mapping *mapping = sti_mapping_first(at, end);
        uintptr_t gap_end = mapping != NULL ? mapping->begin : end;
        next = mapping != NULL ? mapping->end : end;
        is_claimed = gap_end == at || claim_free(at, gap_end, owner);
    }
    if (!is_claimed)
        sti_place_give_up(begin, end);
    return is_claimed;
}

void sti_place_give_up(uintptr_t begin, uintptr_t end)
{
    struct sti_mapping *mapping = sti_mapping_first(begin, end);
    while (mapping != NULL) {
        uintptr_t next = mapping->end;
        bool is_claimed = mapping->kind == STI_MAPPING_CLAIMED;
        if (is_claimed)
            unmap(mapping->begin, mapping->end);
        if (is_claimed || has_hole(mapping->begin, mapping->end)) {
            sti_mapping_take(mapping);
            sti_mapping_drop(mapping);
        }
        mapping = sti_mapping_first(next, end);
    }
}

/* Without memory to cut there more goes than has to. */
static void leave_to_process(uintptr_t begin, uintptr_t end)
{
    if (begin == end)
        return;
    sti_mapping_cut(begin, end);
    sti_mapping_drop_all(sti_mapping_take_all(begin, end));
}

static void leave_to_older(const struct sti_mapping *before)
{
    sti_mapping_cut(before->begin, before->end);
    struct sti_mapping *mapping = sti_mapping_first(before->begin, before->end);
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, before->end)) {
        if (before->owner_id < mapping->owner_id)
            sti_mapping_set_owner(mapping, before->owner);
    }
}

void sti_place_settle(uintptr_t begin, uintptr_t end, const struct sti_mapping *before)
{
    uintptr_t behind = end;
    for (; before != NULL; before = before->next) {
        leave_to_process(before->end, behind);
        leave_to_older(before);
        behind = before->begin;
    }
    leave_to_process(begin, behind);
}

/* --- Pages of its own heap that a task has protected. --- */

#define FIRST ((uintptr_t)3 << 61) /* beyond the longest mapping that anybody may ask for */

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

bool sti_protection_note(struct sti_scope *scope, uintptr_t begin, uintptr_t end)
{
    struct sti_mapped *mapped = sti_mapped_of(scope);
    struct sti_mapping *record = mapped != NULL ? sti_mapping_new() : NULL;
    if (record == NULL)
        return false;
    if (!sti_mapping_lock()) {
        sti_mapping_drop(record);
        return true;
    }
    const struct sti_mapping *older = sti_mapping_first(FIRST + begin, FIRST + end);
    bool is_noted = older != NULL && older->begin <= FIRST + begin && older->end >= FIRST + end;
    if (!is_noted)
        sti_mapping_put(record, FIRST + begin, FIRST + end, STI_MAPPING_PROTECTED, mapped);
    sti_mapping_unlock();
    if (is_noted)
        sti_mapping_drop(record);
    return true;
}

/* Without memory to cut there more is left than has to, and harms nobody. */
void sti_protection_forget(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return;
    bool is_any = sti_mapping_first(FIRST + begin, FIRST + end) != NULL;
    struct sti_mapping *list = NULL;
    if (is_any && sti_mapping_cut(FIRST + begin, FIRST + end))
        list = sti_mapping_take_all(FIRST + begin, FIRST + end);
    sti_mapping_unlock();
    sti_mapping_drop_all(list);
}

void sti_protections_rollback(struct sti_mapped *mapped)
{
    struct sti_mapping *list = sti_mapped_take_kind(mapped, STI_MAPPING_PROTECTED);
    for (const struct sti_mapping *at = list; at != NULL; at = at->next) {
        void *pages = (void *)(at->begin - FIRST);
        if (sti_backend_has_made(pages))
            sti_protect_plainly(pages, at->end - at->begin, PROT_READ | PROT_WRITE, STI_NO_KEY);
    }
    sti_mapping_drop_all(list);
}
