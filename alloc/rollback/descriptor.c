/* SPDX-License-Identifier: MIT
 *
 * The descriptors that a task has opened; see descriptor.h. */
#include "descriptor.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stint/fd.h>
#include <unistd.h>

#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "handle.h"

#define FIRST ((uintptr_t)1 << 63)

static uintptr_t key_of(unsigned descriptor)
{
    return FIRST + descriptor;
}

/* The child of a vfork(2) has this memory and descriptors of its own: what it does with them before it calls exec is
 * nothing to the parent's. */
static STI_AT_FORKS _Atomic pid_t process;

STI_FORK_HANDLER void sti_descriptor_note_process(void)
{
    atomic_store_explicit(&process, getpid(), memory_order_relaxed);
}

static bool is_this_process(void)
{
    return getpid() == atomic_load_explicit(&process, memory_order_relaxed);
}

/* The innermost scope that owns what is opened in it; otherwise the innermost that is audited. NULL: none. */
static struct sti_scope *owning(struct sti_scope *scope, enum sti_mapping_kind *kind)
{
    struct sti_scope *audited = NULL;
    for (; scope != NULL; scope = scope->outer) {
        const stint_options *options = scope->request->options;
        if (options->owns_descriptors) {
            *kind = STI_MAPPING_DESCRIPTOR;
            return scope;
        }
        if (options->audit_fds && audited == NULL)
            audited = scope;
    }
    *kind = STI_MAPPING_AUDITED;
    return audited;
}

bool sti_descriptor_begin(struct sti_descriptor_owner *owner)
{
    struct sti_thread *thread = sti_thread_metered;
    owner->mapped = NULL;
    if (thread == NULL || sti_thread_counted != thread || thread->scope->keeps > 0)
        return true;
    struct sti_scope *scope = owning(thread->scope, &owner->kind);
    if (scope == NULL || !is_this_process())
        return true;
    owner->mapped = sti_mapped_of(scope);
    return owner->mapped != NULL;
}

void sti_descriptor_note(const struct sti_descriptor_owner *owner, int descriptor)
{
    struct sti_mapping *record = descriptor >= 0 && owner->mapped != NULL ? sti_mapping_new() : NULL;
    if (record == NULL)
        return;
    if (!sti_mapping_lock()) {
        sti_mapping_drop(record);
        return;
    }
    uintptr_t key = key_of((unsigned)descriptor);
    sti_mapping_put(record, key, key + 1, owner->kind, owner->mapped);
    sti_mapping_unlock();
}

bool sti_descriptor_is_noted(int descriptor)
{
    if (!sti_mapping_any() || descriptor < 0 || !sti_mapping_lock())
        return false;
    uintptr_t key = key_of((unsigned)descriptor);
    bool noted = sti_mapping_first(key, key + 1) != NULL;
    sti_mapping_unlock();
    return noted;
}

bool sti_descriptor_forget_range(unsigned first, unsigned last)
{
    uintptr_t begin = key_of(first);
    uintptr_t end = key_of(last) + 1;
    if (!sti_mapping_lock())
        return false;
    bool any = sti_mapping_first(begin, end) != NULL;
    struct sti_mapping *list = any && is_this_process() ? sti_mapping_take_all(begin, end) : NULL;
    sti_mapping_unlock();
    any = list != NULL;
    sti_mapping_drop_all(list);
    return any;
}

int stint_descriptor_keep(int descriptor)
{
    if (descriptor < 0)
        return EINVAL;
    unsigned number = (unsigned)descriptor;
    return sti_mapping_any() && sti_descriptor_forget_range(number, number) ? 0 : ENOENT;
}

void sti_descriptors_rollback(struct sti_mapped *mapped, struct sti_open_fds *audited)
{
    struct sti_mapping *list = sti_mapped_take_kinds(mapped, STI_MAPPING_DESCRIPTOR, STI_MAPPING_AUDITED);
    while (list != NULL) {
        struct sti_mapping *next = list->next;
        int descriptor = (int)(list->begin - FIRST);
        if (list->kind == STI_MAPPING_DESCRIPTOR)
            close(descriptor);
        else if (audited != NULL)
            sti_open_fds_note_own(audited, descriptor);
        sti_mapping_drop(list);
        list = next;
    }
}
