/* SPDX-License-Identifier: MIT
 *
 * The work of fork.*, the same for every system that forks it. A program that includes this has defined two functions:
 *
 *   fork_each    run fn on each of count items, as many at once as there are workers, and wait for all of them
 *   fork_inside  run a piece of work where fork_each may be called
 *
 * and how much work one measurement is, FORK_FIB, FORK_QUEENS and FORK_TREE: less for systems that take longer. Figures
 * are nanoseconds a fork, or for the sort milliseconds: of processor time with one worker, which others who use the
 * machine hardly show in; with more workers of the clock on the wall. */
#ifndef BENCH_FORK_WORK_H
#define BENCH_FORK_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fork_fib.h"
#include "serve.h"

#define FORK_MAX 16 /* items */

typedef int fork_fn(void *argument, void **value);

static inline void fork_each(fork_fn *fn, void *items, size_t size, size_t count);
static inline bool fork_inside(fork_fn *fn, void *argument);

static clockid_t fork_clock = CLOCK_PROCESS_CPUTIME_ID;

/* With more workers: measurements that are thrown away before each, so that all of them are awake when it begins. */
#define FORK_WARM_TURNS 8
static unsigned fork_warm_turns;

static inline void fork_prepare_clock(unsigned workers)
{
    fork_warm_turns = workers == 1 ? 0 : FORK_WARM_TURNS;
    fork_clock = workers == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
}

struct fork_timed {
    fork_fn *fn;
    void *argument;
    double ns;
};

static inline int fork_time(void *argument, void **value)
{
    struct fork_timed *timed = (struct fork_timed *)argument;
    double begin = bench_clock_ns(fork_clock);
    int error = timed->fn(timed->argument, value);
    timed->ns = bench_clock_ns(fork_clock) - begin;
    return error;
}

/* 0: it failed. */
static inline double fork_measure(fork_fn *fn, void *argument)
{
    struct fork_timed timed = { fn, argument, 0 };
    return fork_inside(fork_time, &timed) ? timed.ns : 0;
}

static inline size_t fork_measure_warm(size_t (*measure)(double *), double *figures)
{
    for (unsigned turn = 0; turn < fork_warm_turns; turn++)
        measure(figures);
    return measure(figures);
}

/* --- Fibonacci numbers: nothing but forks --- */

struct fork_fib {
    uint64_t n;
    uint64_t result;
};

static int fork_fib(void *argument, void **value)
{
    struct fork_fib *fib = (struct fork_fib *)argument;
    (void)value;
    fib->result = fib->n;
    if (fib->n < 2)
        return 0;
    struct fork_fib parts[2] = { { fib->n - 1, 0 }, { fib->n - 2, 0 } };
    fork_each(fork_fib, parts, sizeof *parts, 2);
    fib->result = parts[0].result + parts[1].result;
    return 0;
}

static inline size_t fork_once_fib(double *figures)
{
    struct fork_fib fib = { FORK_FIB, 0 };
    figures[0] = fork_measure(fork_fib, &fib) / (double)fork_fib_forks(FORK_FIB);
    return fib.result == fork_fib_forks(FORK_FIB - 1) + 1;
}

static inline size_t fork_measure_fib(double *figures)
{
    return fork_measure_warm(fork_once_fib, figures);
}

/* --- Queens that leave each other alone: a fork for each place of a queen --- */

struct fork_queens {
    unsigned left; /* to be placed */
    unsigned free; /* columns, as bits */
    unsigned rising;
    unsigned falling;
    uint64_t placed;
    uint64_t solutions;
};

static int fork_queens(void *argument, void **value)
{
    struct fork_queens *queens = (struct fork_queens *)argument;
    struct fork_queens parts[FORK_MAX];
    size_t count = 0;
    (void)value;
    queens->solutions = queens->left == 0;
    queens->placed = 0;
    for (unsigned places = queens->left == 0 ? 0 : queens->free & ~(queens->rising | queens->falling); places != 0;
         places &= places - 1) {
        unsigned place = places & (0 - places);
        parts[count].left = queens->left - 1;
        parts[count].free = queens->free & ~place;
        parts[count].rising = (queens->rising | place) << 1;
        parts[count].falling = (queens->falling | place) >> 1;
        count++;
    }
    if (count > 0)
        fork_each(fork_queens, parts, sizeof *parts, count);
    for (size_t i = 0; i < count; i++) {
        queens->placed += parts[i].placed + 1;
        queens->solutions += parts[i].solutions;
    }
    return 0;
}

static inline size_t fork_once_queens(double *figures)
{
    struct fork_queens queens;
    memset(&queens, 0, sizeof queens);
    queens.left = FORK_QUEENS;
    queens.free = (1U << FORK_QUEENS) - 1;
    double ns = fork_measure(fork_queens, &queens);
    figures[0] = ns / (double)queens.placed;
    return queens.solutions == (FORK_QUEENS == 12 ? 14200 : FORK_QUEENS == 10 ? 724 : 92);
}

static inline size_t fork_measure_queens(double *figures)
{
    return fork_measure_warm(fork_once_queens, figures);
}

/* --- A tree whose shape nobody can know: three of four nodes have no children, the others seven --- */

struct fork_tree {
    uint64_t state;
    unsigned left; /* levels */
    uint64_t nodes;
};

static inline uint64_t fork_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int fork_tree(void *argument, void **value)
{
    struct fork_tree *tree = (struct fork_tree *)argument;
    struct fork_tree parts[FORK_MAX];
    bool is_near_root = tree->left + 2 > FORK_TREE;
    size_t count = tree->left == 0 ? 0 : is_near_root ? 16 : tree->state % 4 == 0 ? 7 : 0;
    (void)value;
    tree->nodes = 1;
    for (size_t i = 0; i < count; i++) {
        parts[i].state = fork_mix(tree->state + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
        parts[i].left = tree->left - 1;
    }
    if (count > 0)
        fork_each(fork_tree, parts, sizeof *parts, count);
    for (size_t i = 0; i < count; i++)
        tree->nodes += parts[i].nodes;
    return 0;
}

static inline size_t fork_once_tree(double *figures)
{
    struct fork_tree tree = { 1, FORK_TREE, 0 };
    double ns = fork_measure(fork_tree, &tree);
    figures[0] = ns / (double)tree.nodes;
    return tree.nodes > 1000;
}

static inline size_t fork_measure_tree(double *figures)
{
    return fork_measure_warm(fork_once_tree, figures);
}

/* --- A merge sort whose merges are halved too --- */

#define FORK_SORT ((size_t)10000000)
#define FORK_SORT_GRAIN 1024
#define FORK_MERGE_GRAIN 8192

static uint32_t *fork_numbers;
static uint32_t *fork_other_numbers;

struct fork_merge {
    const uint32_t *a;
    size_t a_count;
    const uint32_t *b;
    size_t b_count;
    uint32_t *to;
};

static int fork_merge(void *argument, void **value)
{
    const struct fork_merge *whole = (const struct fork_merge *)argument;
    const uint32_t *a = whole->a;
    const uint32_t *b = whole->b;
    const uint32_t *a_end = a + whole->a_count;
    const uint32_t *b_end = b + whole->b_count;
    uint32_t *to = whole->to;
    (void)value;
    if (whole->a_count + whole->b_count <= FORK_MERGE_GRAIN) {
        while (a < a_end && b < b_end)
            *to++ = *a <= *b ? *a++ : *b++;
        while (a < a_end)
            *to++ = *a++;
        while (b < b_end)
            *to++ = *b++;
        return 0;
    }
    bool a_is_longer = whole->a_count >= whole->b_count;
    const uint32_t *longer = a_is_longer ? a : b;
    const uint32_t *shorter = a_is_longer ? b : a;
    size_t middle = (a_is_longer ? whole->a_count : whole->b_count) / 2;
    size_t low = 0;
    size_t high = a_is_longer ? whole->b_count : whole->a_count;
    while (low < high) {
        size_t half = low + (high - low) / 2;
        if (shorter[half] < longer[middle])
            low = half + 1;
        else
            high = half;
    }
    size_t from_a = a_is_longer ? middle : low;
    size_t from_b = a_is_longer ? low : middle;
    struct fork_merge parts[2] = {
        { a, from_a, b, from_b, to },
        { a + from_a, whole->a_count - from_a, b + from_b, whole->b_count - from_b, to + from_a + from_b },
    };
    fork_each(fork_merge, parts, sizeof *parts, 2);
    return 0;
}

struct fork_sort {
    uint32_t *numbers;
    uint32_t *other;
    size_t count;
    bool into_other;
};

static int fork_sort(void *argument, void **value)
{
    const struct fork_sort *whole = (const struct fork_sort *)argument;
    size_t half = whole->count / 2;
    (void)value;
    if (whole->count <= 16) {
        uint32_t *to = whole->into_other ? whole->other : whole->numbers;
        for (size_t i = 0; i < whole->count; i++) {
            uint32_t number = whole->numbers[i];
            size_t place = i;
            for (; place > 0 && to[place - 1] > number; place--)
                to[place] = to[place - 1];
            to[place] = number;
        }
        return 0;
    }
    struct fork_sort parts[2] = {
        { whole->numbers, whole->other, half, !whole->into_other },
        { whole->numbers + half, whole->other + half, whole->count - half, !whole->into_other },
    };
    if (whole->count > FORK_SORT_GRAIN) {
        fork_each(fork_sort, parts, sizeof *parts, 2);
    } else {
        fork_sort(&parts[0], NULL);
        fork_sort(&parts[1], NULL);
    }
    const uint32_t *from = whole->into_other ? whole->numbers : whole->other;
    struct fork_merge merge = { from, half, from + half, whole->count - half,
                                whole->into_other ? whole->other : whole->numbers };
    return fork_merge(&merge, NULL);
}

static inline size_t fork_measure_sort(double *figures)
{
    if (fork_numbers == NULL) {
        fork_numbers = (uint32_t *)malloc(FORK_SORT * sizeof *fork_numbers);
        fork_other_numbers = (uint32_t *)malloc(FORK_SORT * sizeof *fork_other_numbers);
    }
    if (fork_numbers == NULL || fork_other_numbers == NULL)
        return 0;
    for (size_t i = 0; i < FORK_SORT; i++)
        fork_numbers[i] = (uint32_t)fork_mix(i);
    struct fork_sort sort = { fork_numbers, fork_other_numbers, FORK_SORT, false };
    figures[0] = fork_measure(fork_sort, &sort) / 1e6;
    for (size_t i = 1; i < FORK_SORT; i++) {
        if (fork_numbers[i - 1] > fork_numbers[i])
            return 0;
    }
    return 1;
}

#endif
