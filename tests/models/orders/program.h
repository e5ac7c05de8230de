/* SPDX-License-Identifier: MIT
 *
 * For programs that GenMC runs in all ways: what the library's files need, entries that must be taken once each, and
 * threads. An entry's number is plain, so that a race is found where its store is not published. */
#ifndef TESTS_MODELS_ORDERS_PROGRAM_H
#define TESTS_MODELS_ORDERS_PROGRAM_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

typedef int pid_t; /* which the headers of GenMC lack */
void __VERIFIER_assume(int condition);

#define ENTRIES 3

static int numbers[ENTRIES];
static atomic_int taken[ENTRIES];

static void write_entry(int i)
{
    numbers[i] = i + 1;
}

/* NULL: it got none. */
static void take_entry(const int *entry)
{
    if (entry == NULL)
        return;
    assert(*entry == (int)(entry - numbers) + 1);
    assert(atomic_fetch_add_explicit(&taken[entry - numbers], 1, memory_order_relaxed) == 0);
}

static void assert_all_taken(int count)
{
    for (int i = 0; i < count; i++)
        assert(atomic_load_explicit(&taken[i], memory_order_relaxed) == 1);
}

#define START(thread, function) pthread_create(&(thread), NULL, function, NULL)
#define END(thread) pthread_join(thread, NULL)

#endif
