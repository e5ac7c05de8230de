/* SPDX-License-Identifier: MIT
 *
 * Pages of its own heap that a task has protected; see protection.h. */
#include "protection.h"

#include <sys/mman.h>

#include "alloc/base/backend.h"
#include "alloc/base/lasting.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "heap.h"
#include "mapping.h"
#include "nursery.h"

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
    struct sti_mapping *list = sti_mapped_take_kinds(mapped, STI_MAPPING_PROTECTED, STI_MAPPING_PROTECTED);
    for (const struct sti_mapping *at = list; at != NULL; at = at->next) {
        void *pages = (void *)(at->begin - FIRST);
        if (sti_backend_has_made(pages))
            sti_protect_plainly(pages, at->end - at->begin, PROT_READ | PROT_WRITE, STI_NO_KEY);
    }
    sti_mapping_drop_all(list);
}
