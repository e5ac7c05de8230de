/* SPDX-License-Identifier: MIT
 *
 * The life of a family and of its members; see shared_budget.h and branch.h. Each function says whose thread it is for. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/account.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/left_frames.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/heap.h"
#include "branch.h"
#include "scope.h"

/* --- The life of a family. On the thread of the task's own scope, unless shared_budget.h says otherwise. --- */

static struct sti_family *make_family(struct sti_scope *scope)
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
        .interrupt.thread = scope->thread,
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
    scope->shared = &member->family->interrupt;
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
        struct sti_family *made = make_family(scope);
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

/* --- The members of families that threads keep: what branches left there, until the task's outcome is known. Each function
 * says whose thread it is for.
 *
 * A heap can be ended by its own thread only. So each member waits on its thread for what the task's own thread decides:
 *
 *   OPEN ----> COMMITTED or ROLLED_BACK     by the task's thread, which then puts it into the thread's mail; the thread
 *                                           takes it out, does that, and frees it
 *   OPEN ----> ABANDONED                    by the member's thread, which ends, and has taken the heaps out; the task's
 *                                           thread frees it when it comes to decide
 *
 * Both are compare-and-swaps, so one of them wins, and whoever did not win frees the member. acq_rel: each sees what the
 * other had written. A thread that ends and finds its member decided waits for the mail: it is a few instructions away.
 *
 * The list of a family's members is pushed to while branches begin, and walked when all of them have ended. The mail is
 * pushed to by any thread and taken out whole by its own. For both: release to push, acquire to read. Whoever pushed a
 * member does not touch it again. */

enum { OPEN, COMMITTED, ROLLED_BACK, ABANDONED };

static struct sti_member *make_member(struct sti_family *family, struct sti_thread *thread)
{
    const char *task = family->request->options->name;
    size_t length = task != NULL ? strlen(task) + 1 : 0;
    struct sti_member *member = sti_process_malloc(sizeof *member + length);
    if (member == NULL)
        return NULL;
    *member = (struct sti_member){ .family = family, .thread = thread, .next_of_thread = thread->members };
    if (task != NULL)
        member->task = memcpy(member + 1, task, length);
    atomic_init(&member->state, OPEN);
    thread->members = member;
    atomic_fetch_add_explicit(&family->references, 1, memory_order_relaxed);
    member->next = atomic_load_explicit(&family->members, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&family->members, &member->next, member, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return member;
}

struct sti_member *sti_member_take(struct sti_family *family, struct sti_thread *thread)
{
    struct sti_member *member = thread->members;
    while (member != NULL && (member->family != family || member->runs))
        member = member->next_of_thread;
    if (member == NULL)
        member = make_member(family, thread);
    if (member != NULL)
        member->runs = true;
    return member;
}

static void send(struct sti_member *member)
{
    struct sti_thread *thread = member->thread;
    bool is_urgent = member->heaps != NULL;
    member->next_of_mail = atomic_load_explicit(&thread->mail, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&thread->mail, &member->next_of_mail, member, memory_order_release,
                                                  memory_order_relaxed))
        ;
    if (is_urgent)
        sti_forks_wake(thread);
}

static void discard(struct sti_member *member)
{
    sti_family_release(member->family);
    sti_process_free(member);
}

void sti_member_decide(struct sti_family *family, bool commits)
{
    struct sti_member *member = atomic_exchange_explicit(&family->members, NULL, memory_order_acquire);
    while (member != NULL) {
        struct sti_member *next = member->next;
        int open = OPEN;
        if (atomic_compare_exchange_strong_explicit(&member->state, &open, commits ? COMMITTED : ROLLED_BACK,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            send(member);
        } else {
            atomic_fetch_add_explicit(&family->kept, commits ? 0 : member->held, memory_order_relaxed);
            discard(member);
        }
        member = next;
    }
}

static void take_off(struct sti_thread *thread, const struct sti_member *member)
{
    struct sti_member **link = &thread->members;
    while (*link != member)
        link = &(*link)->next_of_thread;
    *link = member->next_of_thread;
}

static void carry_out(struct sti_thread *thread, struct sti_member *member)
{
    take_off(thread, member);
    if (atomic_load_explicit(&member->state, memory_order_relaxed) == COMMITTED) {
        sti_heap_commit(thread, member->heaps);
    } else {
        sti_heap_rollback(thread, member->heaps, member->task, false);
        if (sti_family_tripped(member->family) == STINT_REASON_GLOBAL_MEMORY_LIMIT)
            sti_backend_process_collect();
    }
    discard(member);
}

void sti_member_collect(struct sti_thread *thread)
{
    struct sti_member *member = atomic_exchange_explicit(&thread->mail, NULL, memory_order_acquire);
    while (member != NULL) {
        struct sti_member *next = member->next_of_mail;
        carry_out(thread, member);
        member = next;
    }
}

void sti_branch_collect(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL || thread->members == NULL)
        return;
    if (sti_member_has_mail(thread))
        sti_member_collect(thread);
    for (struct sti_member *member = thread->members; member != NULL; member = member->next_of_thread) {
        if (!member->runs)
            sti_family_answer_idle(member);
    }
}

void sti_branch_answer(void)
{
    struct sti_thread *thread = sti_thread_metered;
    struct sti_member *member = thread != NULL ? sti_family_member(thread->scope) : NULL;
    if (member != NULL)
        sti_family_answer_waiting(member, thread->scope);
}

bool sti_branch_undecided(void)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_member *member = thread != NULL ? thread->members : NULL;
    while (member != NULL && member->heaps == NULL)
        member = member->next_of_thread;
    return member != NULL;
}

/* False: it is decided, and in the mail or about to be. */
static bool abandon(struct sti_thread *thread, struct sti_member *member)
{
    struct sti_heap *heaps = member->heaps;
    member->held = sti_heap_list_held(heaps);
    int open = OPEN;
    if (!atomic_compare_exchange_strong_explicit(&member->state, &open, ABANDONED, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    sti_heap_commit(thread, heaps);
    return true;
}

void sti_member_end_thread(struct sti_thread *thread)
{
    struct sti_member *decided = NULL;
    while (thread->members != NULL) {
        struct sti_member *member = thread->members;
        thread->members = member->next_of_thread;
        if (!abandon(thread, member)) {
            member->next_of_thread = decided;
            decided = member;
        }
    }
    thread->members = decided;
    while (thread->members != NULL) {
        sti_member_collect(thread);
        sched_yield();
    }
}
