/* SPDX-License-Identifier: MIT
 *
 * Pairs of malloc and free, of blocks from 16 to 512 bytes in an order of no pattern. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "work.h"

#define HOT 512
#define USED 65536
#define STEPS 4096 /* of the order, which begins anew then */
#define PAIRS 4000 /* a slice */

struct pairs {
    uint32_t next;
    void *blocks[USED];
};

static struct step {
    uint32_t slot;
    uint32_t size;
} steps[STEPS];

/* Not in a segment: in the programs with stint that would be scanned at each rollback. */
static struct pairs *pairs;

void work_pair_prepare(unsigned workers)
{
    uint32_t random = 1;
    (void)workers;
    pairs = calloc(1, sizeof *pairs);
    if (pairs == NULL)
        exit(1);
    for (size_t i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        steps[i] = (struct step){ .slot = random >> 16, .size = 16 + (random >> 7) % 497 };
    }
}

static void hot_slice(void *unused)
{
    (void)unused;
    uint32_t next = pairs->next;
    for (uint32_t end = next + PAIRS; next != end; next++) {
        const struct step *step = &steps[next % STEPS];
        void **block = &pairs->blocks[step->slot % HOT];
        free(*block);
        *block = malloc(step->size);
    }
    pairs->next = next;
}

static void used_slice(void *unused)
{
    (void)unused;
    uint32_t next = pairs->next;
    for (uint32_t end = next + PAIRS; next != end; next++) {
        const struct step *step = &steps[next % STEPS];
        void **block = &pairs->blocks[(step->slot + next) % USED];
        free(*block);
        *block = malloc(step->size);
        if (*block != NULL)
            memset(*block, 1, step->size);
    }
    pairs->next = next;
}

static size_t measure(size_t blocks, void (*slice)(void *), double *figures)
{
    /* Every slot has its block before the clock starts. */
    for (size_t i = 0; i < blocks; i++)
        pairs->blocks[i] = malloc(steps[i % STEPS].size);
    figures[0] = bench_slices(slice, NULL, PAIRS);
    for (size_t i = 0; i < blocks; i++) {
        free(pairs->blocks[i]);
        pairs->blocks[i] = NULL;
    }
    return 1;
}

size_t work_pair(double *figures)
{
    return measure(HOT, hot_slice, figures);
}

size_t work_used(double *figures)
{
    return measure(USED, used_slice, figures);
}

void work_ten_pairs(void)
{
    static const unsigned short sizes[10] = { 24, 100, 16, 250, 64, 400, 32, 120, 48, 200 };
    for (int i = 0; i < 10; i++) {
        void *volatile block = malloc(sizes[i]);
        free(block);
    }
}
