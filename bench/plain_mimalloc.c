/* SPDX-License-Identifier: MIT
 *
 * The peer that is plain mimalloc: stint-bench-mimalloc; with forward.c in between, stint-bench-forwarding. For run.*
 * also what a task would cost that is only a heap, and nothing at all; stint-bench-old-heap has the first with
 * mimalloc 2. */
#include <mimalloc.h>

#include "machine.h"
#include "serve.h"
#include "work.h"

#define RUNS 500 /* a slice */

struct job {
    void (*run)(mi_heap_t *heap);
};

static void do_nothing(mi_heap_t *heap)
{
    (void)heap;
}

#ifndef OLD_HEAP
static void ten_pairs(mi_heap_t *heap)
{
    (void)heap;
    work_ten_pairs();
}

static void raw_slice(void *arg)
{
    const struct job *volatile job = arg;
    for (int i = 0; i < RUNS; i++)
        job->run(NULL);
}
#endif

static void ten_pairs_in_heap(mi_heap_t *heap)
{
    static const unsigned short sizes[10] = { 24, 100, 16, 250, 64, 400, 32, 120, 48, 200 };
    for (int i = 0; i < 10; i++) {
        void *volatile block = mi_heap_malloc(heap, sizes[i]);
        mi_free(block);
    }
}

static void heap_slice(void *arg)
{
    const struct job *volatile job = arg;
    for (int i = 0; i < RUNS; i++) {
        mi_heap_t *heap = mi_heap_new();
        job->run(heap);
        mi_heap_destroy(heap);
    }
}

#define SUBJECT(name, slice, job_run)                                                                                  \
    static size_t name(double *figures)                                                                                \
    {                                                                                                                  \
        struct job job = { job_run };                                                                                  \
        figures[0] = bench_slices(slice, &job, RUNS);                                                                  \
        return 1;                                                                                                      \
    }

#ifndef OLD_HEAP
SUBJECT(raw_empty, raw_slice, do_nothing)
SUBJECT(raw_ten, raw_slice, ten_pairs)
#endif
SUBJECT(heap_empty, heap_slice, do_nothing)
SUBJECT(heap_ten, heap_slice, ten_pairs_in_heap)

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
#ifdef OLD_HEAP
        { "run.empty", "old-heap", NULL, heap_empty },
        { "run.alloc10", "old-heap", NULL, heap_ten },
#else
        { "alloc.pair", "mimalloc", work_pair_prepare, work_pair },
        { "alloc.pair", "forwarding", work_pair_prepare, work_pair },
        { "alloc.used", "mimalloc", work_pair_prepare, work_used },
        { "alloc.app.sqlite", "mimalloc", work_app_prepare, work_sqlite },
        { "alloc.faults", "mimalloc", work_app_prepare, work_sqlite_faults },
        { "alloc.app.xml", "mimalloc", work_app_prepare, work_xml },
        { "alloc.app.lua", "mimalloc", work_app_prepare, work_lua },
        { "alloc.app.json", "mimalloc", work_app_prepare, work_json },
        { "run.empty", "raw", NULL, raw_empty },
        { "run.empty", "new-heap", NULL, heap_empty },
        { "run.alloc10", "raw", NULL, raw_ten },
        { "run.alloc10", "new-heap", NULL, heap_ten },
        { "wall.fresh", "fork-mimalloc", NULL, machine_fork },
#endif
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}
