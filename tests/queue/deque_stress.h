/* SPDX-License-Identifier: MIT
 *
 * The deque under load, for deque.c and deque_long.c: an owner that pushes and takes at random, two thieves, and a bit
 * for each entry that says it was taken. */
#ifndef TESTS_DEQUE_STRESS_H
#define TESTS_DEQUE_STRESS_H

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

#include "executor/base/queue.h"

#define STRESS_THIEVES 2

struct stress {
    struct sti_deque deque;
    _Atomic uint64_t *taken;
    atomic_size_t twice;
    atomic_bool done;
};

static void stress_note(struct stress *stress, const void *entry)
{
    size_t number = (size_t)((uintptr_t)entry - 1);
    uint64_t bit = UINT64_C(1) << number % 64;
    if ((atomic_fetch_or_explicit(&stress->taken[number / 64], bit, memory_order_relaxed) & bit) != 0)
        atomic_fetch_add(&stress->twice, 1);
}

static void *stress_steal(void *argument)
{
    struct stress *stress = argument;
    size_t stolen = 0;
    while (!atomic_load(&stress->done)) {
        const void *entry = sti_deque_steal(&stress->deque);
        if (entry == NULL)
            continue;
        stress_note(stress, entry);
        stolen++;
    }
    return (void *)stolen;
}

/* Pushes this many entries and accounts for every one. */
static void stress_deque(size_t entries)
{
    struct stress *stress = aligned_alloc(_Alignof(struct stress), sizeof *stress);
    assert_non_null(stress);
    sti_deque_init(&stress->deque);
    size_t words = (entries + 63) / 64;
    stress->taken = calloc(words, sizeof *stress->taken);
    assert_non_null(stress->taken);
    atomic_init(&stress->twice, 0);
    atomic_init(&stress->done, false);
    pthread_t thieves[STRESS_THIEVES];
    for (int i = 0; i < STRESS_THIEVES; i++)
        assert_int_equal(pthread_create(&thieves[i], NULL, stress_steal, stress), 0);

    /* The first is a thief's: so at least one has begun. */
    size_t pushed = 1;
    assert_true(sti_deque_push(&stress->deque, (void *)(uintptr_t)1));
    while (atomic_load(&stress->taken[0]) == 0)
        sched_yield();

    /* Short runs of pushes and of takes, so that the deque is often empty, nearly empty, or full. */
    uint32_t random = 1;
    size_t kept = 0;
    while (pushed < entries) {
        random = random * 1664525 + 1013904223;
        unsigned run = random >> 24;
        if ((random >> 16 & 1) != 0) {
            while (run-- > 0 && pushed < entries && sti_deque_push(&stress->deque, (void *)(uintptr_t)(pushed + 1)))
                pushed++;
        } else {
            const void *entry;
            while (run-- > 0 && (entry = sti_deque_take(&stress->deque)) != NULL) {
                stress_note(stress, entry);
                kept++;
            }
        }
    }
    const void *entry;
    while ((entry = sti_deque_take(&stress->deque)) != NULL) {
        stress_note(stress, entry);
        kept++;
    }
    atomic_store(&stress->done, true);
    size_t stolen = 0;
    for (int i = 0; i < STRESS_THIEVES; i++) {
        void *count;
        pthread_join(thieves[i], &count);
        stolen += (size_t)count;
    }

    assert_int_equal(atomic_load(&stress->twice), 0);
    assert_int_equal(kept + stolen, entries);
    size_t seen = 0;
    for (size_t i = 0; i < words; i++)
        seen += (size_t)__builtin_popcountll(atomic_load(&stress->taken[i]));
    assert_int_equal(seen, entries);
    assert_true(stolen > 0);
    free(stress->taken);
    free(stress);
}

#endif
