/* SPDX-License-Identifier: MIT
 *
 * The list of followers and the line of those that are run; see follow.h. */
#include "follow.h"

#include <stddef.h>

#include "futex.h"

#define SLEEPERS ((uintptr_t)1)
#define CLOSED ((uintptr_t)3)

/* --- The line ----------------------------------------------------------------------------------------------------- */

static _Thread_local struct {
    struct sti_follower *first;
    struct sti_follower *last;
    bool running;
} line;

static void append(struct sti_follower *follower)
{
    follower->next = NULL;
    if (line.first == NULL)
        line.first = follower;
    else
        line.last->next = follower;
    line.last = follower;
    sti_task_retain(follower->task);
}

static void run_line(void)
{
    if (line.running)
        return;
    line.running = true;
    while (line.first != NULL) {
        struct sti_follower *follower = line.first;
        sti_task *task = follower->task;
        line.first = follower->next;
        follower->run(follower);
        sti_task_release(task);
    }
    line.running = false;
}

bool sti_is_following(void)
{
    return line.running;
}

void sti_follow_hold(void)
{
    line.running = true;
}

struct sti_follower *sti_follow_let_go(void)
{
    struct sti_follower *first = line.first;
    line.first = NULL;
    line.running = false;
    return first;
}

void sti_follow_run(struct sti_follower *first)
{
    line.first = first;
    line.last = first;
    while (line.last != NULL && line.last->next != NULL)
        line.last = line.last->next;
    run_line();
}

void sti_follow_now(sti_task *task, struct sti_follower *follower)
{
    follower->task = task;
    append(follower);
    run_line();
}

/* --- The list ----------------------------------------------------------------------------------------------------- */

void sti_follow(sti_task *task, struct sti_follower *follower)
{
    follower->task = task;
    uintptr_t word = atomic_load_explicit(&task->followers, memory_order_acquire);
    while (word != CLOSED) {
        follower->next = (struct sti_follower *)(word & ~SLEEPERS);
        if (atomic_compare_exchange_weak_explicit(&task->followers, &word, (uintptr_t)follower | (word & SLEEPERS),
                                                  memory_order_release, memory_order_acquire))
            return;
    }
    sti_follow_now(task, follower);
}

/* The list has the newest on top. */
static struct sti_follower *reversed(struct sti_follower *newest)
{
    struct sti_follower *oldest = NULL;
    while (newest != NULL) {
        struct sti_follower *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static __attribute__((noinline)) void tell(sti_task *task, uintptr_t word)
{
    if (word & SLEEPERS)
        sti_follow_ring(task);
    struct sti_follower *follower = reversed((struct sti_follower *)(word & ~SLEEPERS));
    if (follower == NULL)
        return;
    while (follower != NULL) {
        struct sti_follower *next = follower->next;
        append(follower);
        follower = next;
    }
    run_line();
}

void sti_follow_resolve(sti_task *task)
{
    uintptr_t word = atomic_exchange_explicit(&task->followers, CLOSED, memory_order_acq_rel);
    if (__builtin_expect(word != 0, 0))
        tell(task, word);
}

/* --- Sleepers ----------------------------------------------------------------------------------------------------- */

void sti_follow_ring(sti_task *task)
{
    /* relaxed: the wake is what makes anybody look, and the kernel's lock orders it with their comparison. */
    atomic_fetch_add_explicit(&task->bell, 1, memory_order_relaxed);
    sti_futex_wake_all(&task->bell);
}

uint32_t sti_follow_bell(const sti_task *task)
{
    /* acquire: what is looked at next is not read before. */
    return atomic_load_explicit(&task->bell, memory_order_acquire);
}

bool sti_follow_sleep(sti_task *task, uint32_t value, uint64_t deadline_ns)
{
    if (atomic_fetch_or_explicit(&task->followers, SLEEPERS, memory_order_acq_rel) == CLOSED)
        return true;
    if (deadline_ns == STI_NEVER) {
        sti_futex_wait(&task->bell, value, NULL);
    } else {
        struct timespec deadline = sti_deadline_time(deadline_ns);
        sti_futex_wait(&task->bell, value, &deadline);
    }
    return sti_task_is_resolved(task);
}
