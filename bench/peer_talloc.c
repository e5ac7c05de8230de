/* SPDX-License-Identifier: MIT
 *
 * The peer talloc, with a memory limit as a user would set it: stint-bench-talloc. The blocks and their order are those
 * of work_pair.c. */
#include <stdint.h>
#include <talloc.h>

#include "serve.h"

#define HOT 512
#define STEPS 4096
#define PAIRS 4000 /* a slice */

static struct step {
    uint32_t slot;
    uint32_t size;
} steps[STEPS];

struct pairs {
    TALLOC_CTX *context;
    uint32_t next;
    void *blocks[HOT];
};

static void slice(void *arg)
{
    struct pairs *pairs = arg;
    uint32_t next = pairs->next;
    for (uint32_t end = next + PAIRS; next != end; next++) {
        const struct step *step = &steps[next % STEPS];
        void **block = &pairs->blocks[step->slot % HOT];
        talloc_free(*block);
        *block = talloc_size(pairs->context, step->size);
    }
    pairs->next = next;
}

static size_t measure(double *figures)
{
    static struct pairs pairs;
    uint32_t random = 1;
    for (size_t i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        steps[i] = (struct step){ .slot = random >> 16, .size = 16 + (random >> 7) % 497 };
    }
    pairs.context = talloc_new(NULL);
    talloc_set_memlimit(pairs.context, (size_t)1 << 30);
    for (size_t i = 0; i < HOT; i++)
        pairs.blocks[i] = talloc_size(pairs.context, steps[i].size);
    figures[0] = bench_slices(slice, &pairs, PAIRS);
    talloc_free(pairs.context);
    return 1;
}

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "alloc.pair", "talloc", NULL, measure },
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}
