/* SPDX-License-Identifier: MIT
 *
 * What the members of a family hold together, against the memory limit of their task. Thread of the member.
 *
 * A heap can be measured by its own thread only. So each member publishes two numbers. held: what it held when it was
 * measured last, with the block that it was measured for. estimate: that, and what it has been charged since, which its
 * frees may have made too high; it grows at every sample point, so it is never too low by more than what is charged
 * between two of them. While the sum of the estimates is within the limit, so is what is held. When a member finds it
 * beyond, it is measured, if it has been charged a floor since the last time (the one that a single thread has too, for
 * the same reason); and when the sum is still too high, the others are asked: those that allocate find at their next
 * sample point, which a poke brings about, that they are to be measured, those that wait for a subtask or keep heaps and
 * have nothing to do are woken (branch.h). The one that asks gives them a millisecond or so; then the limit is passed.
 *
 * So the limit is passed by at most a floor, and what is charged between two sample points, for each member. And a task is
 * stopped below it only if one of its threads has freed much and now computes without allocating, for longer than that.
 *
 * Each number is one counter, and nothing is published through it: relaxed. asked is stored before the pokes, and read in
 * the sample points after: seq_cst both, as any flag (thread.h). */
#include <sched.h>
#include <time.h>

#include "family.h"
#include "forks.h"
#include "heap.h"
#include "scope_state.h"

#define SMALLEST_FLOOR ((size_t)64 << 10)
#define FLOOR_SHIFT 7 /* and a 128th of the limit */
#define LARGEST_SIZE ((size_t)1 << 47)
#define SHORT_WAITS 64
#define LONG_WAIT_NS 50000

unsigned sti_family_patience = SHORT_WAITS + 20;

static size_t publish(atomic_size_t *sum, size_t *part, size_t now)
{
    size_t more = now - *part;
    *part = now;
    return atomic_fetch_add_explicit(sum, more, memory_order_relaxed) + more;
}

static void raise_peak(struct sti_family *family, size_t held)
{
    size_t peak = atomic_load_explicit(&family->peak, memory_order_relaxed);
    while (held > peak && !atomic_compare_exchange_weak_explicit(&family->peak, &peak, held, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
}

static void publish_both(struct sti_member *member, size_t held)
{
    publish(&member->family->held, &member->held, held);
    publish(&member->family->estimate, &member->estimate, held);
}

bool sti_family_hold(struct sti_member *member, size_t held, size_t wanted)
{
    struct sti_family *family = member->family;
    bool possible = wanted <= LARGEST_SIZE;
    member->wanted = possible ? wanted : 0;
    member->answered = atomic_load_explicit(&family->asked, memory_order_relaxed);
    member->measured_at = member->thread->used + member->wanted;
    held += member->wanted;
    size_t all_held = publish(&family->held, &member->held, held);
    size_t all = publish(&family->estimate, &member->estimate, held);
    if (family->memory_limit != 0 && (!possible || all > family->memory_limit)) {
        sti_family_hold_no_more(member);
        return false;
    }
    raise_peak(family, all_held);
    member->slack = family->memory_limit != 0 ? (family->memory_limit - all) / 2 : 0;
    return true;
}

void sti_family_hold_no_more(struct sti_member *member)
{
    publish_both(member, member->held - member->wanted);
    member->slack = 0;
    member->wanted = 0;
}

static bool is_asked(const struct sti_member *member)
{
    return member->answered != atomic_load_explicit(&member->family->asked, memory_order_seq_cst);
}

bool sti_family_must_measure(struct sti_member *member, uint64_t after)
{
    struct sti_family *family = member->family;
    member->wanted = 0; /* it has been made, or given up */
    if (family->memory_limit == 0)
        return false;
    size_t part = family->memory_limit >> FLOOR_SHIFT;
    size_t floor = part > SMALLEST_FLOOR ? part : SMALLEST_FLOOR;
    uint64_t charged = after > member->measured_at ? after - member->measured_at : 0;
    size_t grown = charged + charged / 4;
    size_t all = publish(&family->estimate, &member->estimate, member->held + grown);
    return is_asked(member) || (all > family->memory_limit && grown >= floor);
}

static void ask(struct sti_family *family)
{
    atomic_fetch_add_explicit(&family->asked, 1, memory_order_seq_cst);
    atomic_store_explicit(&family->thread->limit, 0, memory_order_seq_cst);
    sti_forks_wake(family->thread);
    const struct sti_member *member = atomic_load_explicit(&family->members, memory_order_acquire);
    for (; member != NULL; member = member->next) {
        atomic_store_explicit(&member->thread->limit, 0, memory_order_seq_cst);
        sti_forks_wake(member->thread);
    }
}

bool sti_family_await_others(const struct sti_member *member, unsigned round)
{
    struct sti_family *family = member->family;
    if (round >= sti_family_patience || sti_family_tripped(family) != STINT_REASON_NONE)
        return false;
    if (round == 0)
        ask(family);
    const struct timespec moment = { .tv_nsec = LONG_WAIT_NS };
    if (round < SHORT_WAITS)
        sched_yield();
    else
        nanosleep(&moment, NULL);
    return true;
}

void sti_family_answer_idle(struct sti_member *member)
{
    if (!is_asked(member))
        return;
    member->answered = atomic_load_explicit(&member->family->asked, memory_order_relaxed);
    publish_both(member, sti_heap_list_held(member->heaps));
}

/* The next sample point measures again, and places the one after. */
void sti_family_answer_waiting(struct sti_member *member, struct sti_scope *innermost)
{
    if (!is_asked(member))
        return;
    size_t held = 0;
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        sti_heap_measure_exactly(innermost->thread, scope);
        held += sti_heap_held(scope);
    }
    sti_family_hold(member, held, 0);
    innermost->thread->memory_check = 0;
    atomic_store_explicit(&innermost->thread->limit, 0, memory_order_relaxed);
}
