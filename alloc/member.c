/* SPDX-License-Identifier: MIT
 *
 * The members of families that threads keep: what branches left there, until the task's outcome is known. Each function
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
#include <sched.h>
#include <string.h>

#include "branch.h"
#include "family.h"
#include "forks.h"
#include "heap.h"
#include "process.h"
#include "scope.h"
#include "thread.h"

enum { OPEN, COMMITTED, ROLLED_BACK, ABANDONED };

static struct sti_member *make(struct sti_family *family, struct sti_thread *thread)
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
        member = make(family, thread);
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
