/* SPDX-License-Identifier: MIT
 *
 * The life of a family; see family.h. On the thread of the task's own scope, unless family.h says otherwise. */
#include "family.h"

#include <errno.h>

#include "account.h"
#include "branch.h"
#include "heap.h"
#include "interrupt.h"
#include "process.h"
#include "scope.h"
#include "scope_state.h"
#include "watch.h"

stint_reason sti_family_trip(struct sti_family *family, stint_reason reason)
{
    stint_reason before = STINT_REASON_NONE;
    if (!atomic_compare_exchange_strong_explicit(&family->tripped, &before, reason, memory_order_seq_cst,
                                                 memory_order_seq_cst))
        return before;
    sti_thread_poke_all();
    sti_watch_wake();
    return reason;
}

static struct sti_family *make(struct sti_scope *scope)
{
    struct sti_family *family = sti_process_aligned(_Alignof(struct sti_family), sizeof *family);
    struct sti_member *own = sti_process_malloc(sizeof *own);
    if (family == NULL || own == NULL) {
        sti_process_free(family);
        sti_process_free(own);
        return NULL;
    }
    *family = (struct sti_family){
        .request = scope->request,
        .thread = scope->thread,
        .own = own,
        .deadline = scope->deadline,
        .allocation_limit = scope->own_end != UINT64_MAX ? scope->own_end - scope->begin : 0,
        .memory_limit = scope->memory_limit,
    };
    atomic_init(&family->references, 1);
    *own = (struct sti_member){ .family = family, .thread = scope->thread, .runs = true };
    return family;
}

/* The watch reads the scope's member, under its lock. */
static void join(struct sti_scope *scope, struct sti_member *member)
{
    if (scope->watched)
        sti_watch_lock();
    scope->member = member;
    if (scope->watched)
        sti_watch_unlock();
}

int sti_family_open(struct sti_family **family)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return ENOTSUP;
    struct sti_scope *scope = thread->scope;
    struct sti_member *member = sti_family_member(scope);
    if (scope->outer != NULL && !scope->is_inner_branch)
        return ENOTSUP;
    for (const struct sti_scope *at = scope; at != NULL; at = at->outer) {
        if (at->masks > 0 || at->tripped != STINT_REASON_NONE)
            return EBUSY;
    }
    if (member == NULL) {
        struct sti_family *made = make(scope);
        if (made == NULL)
            return ENOMEM;
        join(scope, made->own);
        sti_family_begin(made->own, scope);
        member = made->own;
    }
    *family = member->family;
    return 0;
}

uint64_t sti_family_cpu_left(struct sti_family *family)
{
    uint64_t limit = family->request->options->budget.cpu_ns;
    uint64_t used = atomic_load_explicit(&family->cpu, memory_order_relaxed);
    if (limit == 0 || limit == UINT64_MAX)
        return limit;
    return used < limit ? limit - used : 1;
}

void sti_family_add_cpu(struct sti_family *family, uint64_t used)
{
    uint64_t limit = family->request->options->budget.cpu_ns;
    if (limit != 0 && atomic_fetch_add_explicit(&family->cpu, used, memory_order_relaxed) + used >= limit)
        sti_family_trip(family, STINT_REASON_CPU);
}

void sti_family_close(struct sti_scope *scope, uint64_t cpu)
{
    struct sti_family *family = scope->member->family;
    uint64_t limit = family->request->options->budget.cpu_ns;
    sti_family_settle(scope->member, scope);
    if (limit != 0 && !scope->finished && cpu + atomic_load_explicit(&family->cpu, memory_order_relaxed) >= limit)
        sti_family_trip(family, STINT_REASON_CPU);
    scope->tripped = sti_family_tripped(family);
}

void sti_family_add_usage(const struct sti_scope *scope, stint_usage *usage)
{
    struct sti_family *family = scope->member->family;
    usage->allocated = atomic_load_explicit(&family->used, memory_order_relaxed);
    size_t peak = atomic_load_explicit(&family->peak, memory_order_relaxed);
    if (peak > usage->peak)
        usage->peak = peak;
    usage->samples += atomic_load_explicit(&family->samples, memory_order_relaxed);
    usage->deferred += atomic_load_explicit(&family->deferred, memory_order_relaxed);
    usage->cpu_ns += atomic_load_explicit(&family->cpu, memory_order_relaxed);
}

uint64_t sti_family_end(struct sti_scope *scope, bool commits)
{
    struct sti_family *family = scope->member->family;
    sti_member_decide(family, commits);
    sti_account_reserve(scope->account, scope->charged, atomic_load_explicit(&family->account_reserved, memory_order_relaxed), 0);
    uint64_t kept = atomic_load_explicit(&family->kept, memory_order_relaxed);
    sti_process_free(family->own);
    family->own = NULL;
    sti_family_release(family);
    return kept;
}

void sti_family_release(struct sti_family *family)
{
    /* acq_rel: the last one sees that the others are done with it. */
    if (atomic_fetch_sub_explicit(&family->references, 1, memory_order_acq_rel) == 1)
        sti_process_free(family);
}
