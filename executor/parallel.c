/* SPDX-License-Identifier: MIT
 *
 * Loops over ranges, halved when somebody asks; see stint/parallel.h. Any thread.
 *
 * A loop is a reduction that has nothing to combine. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/alloc.h>
#include <stint/fork.h>
#include <stint/parallel.h>
#include <string.h>

#include "split.h"
#include "worker.h"

#define PIECES 512               /* of a range at least, where the library chooses the grain */
#define ACCUMULATOR_IN_FRAME 256 /* bytes */

struct range {
    const stint_reduction *reduction; /* NULL: a loop */
    stint_range_fn *fn;
    void *arg;
    size_t smallest; /* pieces */
    size_t largest;
    atomic_bool failed;
};

struct part {
    struct range *range;
    size_t begin;
    size_t end;
    void *accumulator;
};

static bool is_asked(void)
{
    const struct sti_worker *worker = sti_worker_current();
    return worker != NULL && sti_split_is_asked(&worker->split);
}

/* The pieces that have not begun are not wanted after an exception either. */
static void end_by_exception(struct range **range)
{
    if (*range != NULL)
        atomic_store_explicit(&(*range)->failed, true, memory_order_relaxed);
}

static int do_piece(struct part *part, size_t end)
{
    const struct range *range = part->range;
    __attribute__((cleanup(end_by_exception))) struct range *thrown_out_of = part->range;
    int error = range->reduction != NULL ? range->reduction->accumulate(part->begin, end, part->accumulator, range->arg)
                                         : range->fn(part->begin, end, range->arg);
    part->begin = end;
    thrown_out_of = NULL;
    return error;
}

static void clear_accumulator(const stint_reduction *reduction, void *accumulator)
{
    if (reduction->neutral != NULL)
        memcpy(accumulator, reduction->neutral, reduction->size);
    else
        memset(accumulator, 0, reduction->size);
}

static int do_part(struct part *part, bool may_halve);

static int do_forked_part(void *part, void **value)
{
    (void)value;
    return do_part(part, true);
}

/* The upper half is forked. When that did not answer the question, forks of this place are not shared: nor will the next
 * ones be. */
static int do_halves(struct part *part, void *upper_accumulator)
{
    struct range *range = part->range;
    size_t pieces = (part->end - part->begin - 1) / range->smallest + 1;
    size_t middle = part->begin + (pieces / 2 + pieces % 2) * range->smallest;
    struct part upper = { range, middle, part->end, upper_accumulator };
    __attribute__((cleanup(stint_fork_drop))) stint_subtask subtask;
    stint_fork(&subtask, do_forked_part, &upper);
    part->end = middle;
    int error = do_part(part, !is_asked());
    return error != 0 ? error : stint_join(&subtask, NULL);
}

struct accumulator {
    void *memory;
    bool allocated;
};

static void free_accumulator(struct accumulator *accumulator)
{
    if (accumulator->allocated)
        stint_free(accumulator->memory);
}

static int halve(struct part *part)
{
    const struct range *range = part->range;
    const stint_reduction *reduction = range->reduction;
    _Alignas(max_align_t) char in_frame[ACCUMULATOR_IN_FRAME];
    if (reduction == NULL)
        return do_halves(part, NULL);
    __attribute__((cleanup(free_accumulator))) struct accumulator upper = { in_frame, false };
    if (reduction->size > sizeof in_frame)
        upper = (struct accumulator){ stint_malloc(reduction->size), true };
    if (upper.memory == NULL)
        return do_part(part, false);
    clear_accumulator(reduction, upper.memory);
    int error = do_halves(part, upper.memory);
    if (error == 0)
        reduction->combine(part->accumulator, upper.memory, range->arg);
    return error;
}

static int do_part(struct part *part, bool may_halve)
{
    struct range *range = part->range;
    size_t size = range->smallest;
    while (part->begin < part->end && !atomic_load_explicit(&range->failed, memory_order_relaxed)) {
        size_t left = part->end - part->begin;
        if (may_halve && left > range->smallest && is_asked())
            return halve(part);
        int error = do_piece(part, part->begin + (size < left ? size : left));
        if (error != 0) {
            atomic_store_explicit(&range->failed, true, memory_order_relaxed);
            return error;
        }
        if (size < range->largest)
            size *= 2;
    }
    return 0;
}

static int do_range(struct range *range, size_t begin, size_t end, size_t grain, void *accumulator)
{
    if (begin >= end)
        return 0;
    range->smallest = grain != 0 ? grain : 1;
    range->largest = grain != 0 ? grain : (end - begin) / PIECES;
    atomic_init(&range->failed, false);
    struct part all = { range, begin, end, accumulator };
    return do_part(&all, true);
}

int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg)
{
    struct range range = { .fn = fn, .arg = arg };
    return fn != NULL ? do_range(&range, begin, end, grain, NULL) : EINVAL;
}

int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *result, void *arg)
{
    if (reduction == NULL || reduction->accumulate == NULL || reduction->combine == NULL || result == NULL)
        return EINVAL;
    struct range range = { .reduction = reduction, .arg = arg };
    clear_accumulator(reduction, result);
    return do_range(&range, begin, end, grain, result);
}
