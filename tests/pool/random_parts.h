/* SPDX-License-Identifier: MIT
 *
 * Shared by random programs on pools: a task's seed and depth, and forks whose parts do the same as a task. */
#ifndef TESTS_RANDOM_PARTS_H
#define TESTS_RANDOM_PARTS_H

#include "pools.h"

/* The random work of a task: each program's own. */
static void act(uint64_t *random, unsigned depth);

/* Seed and depth in one pointer: a child may outlive its parent. */
static void *pack(uint64_t seed, unsigned depth)
{
    return (void *)(uintptr_t)((seed & ~UINT64_C(15)) | depth);
}

/* So many workers at most, or as many as the environment says (tests/schedules). */
static unsigned draw_workers(uint64_t *random, unsigned most)
{
    const char *said = getenv("STINT_TESTS_WORKERS");
    unsigned drawn = (unsigned)(1 + random_below(random, most));
    return said != NULL ? (unsigned)atoi(said) : drawn;
}

static void release(void *future)
{
    stint_future_release(future);
}

struct part {
    uint64_t random;
    unsigned depth;
};

static int do_part(void *arg, void **value)
{
    struct part *part = arg;
    (void)value;
    act(&part->random, part->depth);
    return 0;
}

static void fork_parts(uint64_t *random, unsigned depth)
{
    struct part parts[3];
    stint_subtask forks[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct part){ random_next(random), depth + 1 };
        stint_fork(&forks[i], do_part, &parts[i]);
    }
    if (random_below(random, 2) == 0)
        act(random, depth + 1);
    for (int i = 3; i-- > 0;)
        stint_join(&forks[i], NULL);
}

#endif
