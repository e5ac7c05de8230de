/* SPDX-License-Identifier: MIT
 *
 * The split deque under load, for split.c and split_long.c: an owner that forks and joins at random, mostly newest
 * first, two thieves, and a bit for each fork that says that it has run. */
#ifndef TESTS_SPLIT_STRESS_H
#define TESTS_SPLIT_STRESS_H

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

#include "executor/base/split.h"

#define STRESS_THIEVES 2
#define STRESS_DEPTH 64 /* outstanding forks at most */
#define STRESS_FAMILY ((struct sti_group *)64)
#define STRESS_OTHER_FAMILY ((struct sti_group *)128)

struct stress {
    struct sti_split split;
    stint_subtask subtasks[STRESS_DEPTH]; /* by index */
    _Atomic uint64_t *ran;
    atomic_size_t twice;
    atomic_size_t of_others;
    atomic_bool done;
};

/* False: full. */
static inline bool push_fork(struct sti_split *split, stint_subtask *subtask)
{
    struct stint_fork_slot_ *slot = sti_split_free_slot(split);
    if (slot == NULL)
        return false;
    slot->fork = subtask;
    subtask->place_ = sti_split_push(split);
    return true;
}

static void stress_run(struct stress *stress, const void *arg)
{
    size_t number = (size_t)(uintptr_t)arg;
    uint64_t bit = UINT64_C(1) << number % 64;
    if ((atomic_fetch_or_explicit(&stress->ran[number / 64], bit, memory_order_relaxed) & bit) != 0)
        atomic_fetch_add(&stress->twice, 1);
}

static void *stress_steal(void *argument)
{
    struct stress *stress = argument;
    size_t stolen = 0;
    while (!atomic_load(&stress->done)) {
        struct sti_offer *offer = sti_split_steal(&stress->split, stolen % 2 == 0 ? NULL : STRESS_FAMILY);
        if (offer == NULL) {
            sti_split_ask(&stress->split);
            continue;
        }
        if (atomic_load(&offer->group) != STRESS_FAMILY)
            atomic_fetch_add(&stress->of_others, 1);
        stress_run(stress, offer->arg);
        stolen++;
        atomic_store_explicit(&offer->state, STI_OFFER_ENDED, memory_order_release);
    }
    return (void *)stolen;
}

static void stress_fork(struct stress *stress, size_t number)
{
    stint_subtask *subtask = &stress->subtasks[sti_split_depth(&stress->split)];
    subtask->arg_ = (void *)(uintptr_t)number;
    assert_true(push_fork(&stress->split, subtask));
}

/* 1: it was taken back and run here; 0: a thief ran it. */
static size_t stress_join(struct stress *stress, const stint_subtask *subtask)
{
    size_t index = sti_split_index(&stress->split, subtask->place_);
    if (sti_split_take(&stress->split, index)) {
        stress_run(stress, subtask->arg_);
        return 1;
    }
    while (atomic_load_explicit(&stress->split.offers[index].state, memory_order_acquire) != STI_OFFER_ENDED)
        sched_yield();
    sti_split_forget(&stress->split, index);
    return 0;
}

/* Some slot that is no hole. */
static const stint_subtask *stress_choose(struct stress *stress, uint32_t random)
{
    size_t depth = sti_split_depth(&stress->split);
    size_t index = random % 16 == 0 ? random / 16 % depth : depth - 1;
    while (stress->split.forks.slots[index].fork == NULL)
        index++;
    return stress->split.forks.slots[index].fork;
}

/* Makes this many forks and accounts for every one. */
static void stress_split(size_t forks)
{
    struct stress *stress = aligned_alloc(_Alignof(struct stress), sizeof *stress);
    assert_non_null(stress);
    sti_split_init(&stress->split);
    size_t words = (forks + 63) / 64;
    stress->ran = calloc(words, sizeof *stress->ran);
    assert_non_null(stress->ran);
    atomic_init(&stress->twice, 0);
    atomic_init(&stress->of_others, 0);
    atomic_init(&stress->done, false);
    pthread_t thieves[STRESS_THIEVES];
    for (int i = 0; i < STRESS_THIEVES; i++)
        assert_int_equal(pthread_create(&thieves[i], NULL, stress_steal, stress), 0);

    /* The first one for a thief, so that the thieves have begun. */
    stress_fork(stress, 0);
    assert_true(sti_split_share(&stress->split, 1, STRESS_FAMILY));
    while (atomic_load_explicit(&stress->split.offers[0].state, memory_order_acquire) != STI_OFFER_ENDED)
        sched_yield();
    sti_split_forget(&stress->split, 0);

    /* Short runs of forks and of joins, so that the deque is often empty or nearly so. */
    uint32_t random = 1;
    size_t forked = 1;
    size_t kept = 0;
    size_t answered = 0;
    for (size_t round = 0; forked < forks || sti_split_depth(&stress->split) > 0; round++) {
        if (round % 256 == 0)
            sched_yield(); /* on one processor too the thieves have their turn */
        random = random * 1664525 + 1013904223;
        unsigned run = random >> 27;
        bool forking = forked < forks && (random >> 16 & 1) != 0;
        for (; forking && run > 0 && forked < forks && sti_split_depth(&stress->split) < STRESS_DEPTH; run--)
            stress_fork(stress, forked++);
        if (sti_split_is_asked(&stress->split))
            answered += sti_split_share(&stress->split, sti_split_depth(&stress->split), STRESS_FAMILY);
        for (; !forking && run > 0 && sti_split_depth(&stress->split) > 0; run--) {
            random = random * 1664525 + 1013904223;
            kept += stress_join(stress, stress_choose(stress, random >> 8));
        }
    }
    atomic_store(&stress->done, true);
    size_t stolen = 0;
    for (int i = 0; i < STRESS_THIEVES; i++) {
        void *count;
        pthread_join(thieves[i], &count);
        stolen += (size_t)count;
    }

    assert_int_equal(atomic_load(&stress->twice), 0);
    assert_int_equal(atomic_load(&stress->of_others), 0);
    assert_int_equal(kept + stolen, forks);
    size_t seen = 0;
    for (size_t i = 0; i < words; i++)
        seen += (size_t)__builtin_popcountll(atomic_load(&stress->ran[i]));
    assert_int_equal(seen, forks);
    assert_true(stolen > 0);
    assert_true(answered > 0);
    assert_int_equal(stress->split.holes, 0);
    free(stress->ran);
    free(stress);
}

#endif
