/* SPDX-License-Identifier: MIT
 *
 * A limit of one's own, from a profiler's callback: no place in the code may hold more than about 20,000 blocks at
 * once. What finds a leak while it is still small stops the task that leaks, and no other.
 *
 * A place is where malloc was called. Blocks are estimated: one that was sampled stands for as many as the mean
 * interval has room for. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

#define PLACES 1024
#define MAX_BLOCKS 20000
#define NODES 100000

struct place {
    _Atomic uint64_t blocks;
};

struct followed {
    struct place *place;
    uint64_t blocks; /* that it stands for */
};

static struct place places[PLACES];

/* Callbacks may run on several threads at once; what they allocate is the process's, and not sampled. */
static void *count_block(const stint_memprof_allocation *allocation, void *arg)
{
    uintptr_t caller = (uintptr_t)allocation->callstack[0];
    struct followed *followed = malloc(sizeof *followed);
    (void)arg;
    if (followed == NULL)
        return NULL;
    followed->place = &places[(caller ^ caller >> 10) % PLACES];
    followed->blocks =
        (uint64_t)((double)allocation->samples * allocation->interval / (double)allocation->charged + 0.5);
    uint64_t before = atomic_fetch_add(&followed->place->blocks, followed->blocks);
    if (before + followed->blocks <= MAX_BLOCKS)
        return followed;
    atomic_fetch_sub(&followed->place->blocks, followed->blocks);
    free(followed);
    return STINT_MEMPROF_INTERRUPT;
}

static void forget_block(void *metadata, stint_memprof_end end, void *arg)
{
    struct followed *followed = metadata;
    (void)end; /* freed or rolled back, it is gone */
    (void)arg;
    atomic_fetch_sub(&followed->place->blocks, followed->blocks);
    free(followed);
}

static int build_and_free(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < NODES; i++) {
        void *volatile node = malloc(48); /* volatile: the compiler would leave it out */
        if (node == NULL)
            return 1;
        free(node);
    }
    return 0;
}

static int build_and_forget(void *arg, void **value)
{
    void **list = NULL;
    (void)arg;
    for (int i = 0; i < NODES; i++) {
        void **node = malloc(48);
        if (node == NULL)
            return 1;
        *node = list;
        list = node;
    }
    *value = list;
    return 0;
}

static int run(const char *name, stint_fn *fn)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.name = name;
    if (stint_run(fn, NULL, &options, &outcome) != 0)
        return 1;
    printf("%s: %s, %s\n", name, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    return 0;
}

int main(void)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = 8 << 10;
    options.callstack_depth = 1;
    options.tracker = (stint_memprof_tracker){ count_block, NULL, forget_block };
    if (stint_memprof_start(&options) != 0)
        return 1;
    int failed = run("tidy", build_and_free) + run("leaky", build_and_forget) + run("tidy again", build_and_free);
    return stint_memprof_stop() + failed;
}
