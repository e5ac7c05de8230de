/* SPDX-License-Identifier: MIT
 *
 * Loops, reductions and sorting, by forks. Worker's own thread, or any other, where they run one after another. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/fork.h>
#include <stint/memory.h>
#include <string.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "executor/base/split.h"
#include "executor/worker/worker.h"

/* --- Loops over ranges, halved when somebody asks; see stint/fork.h. Any thread.
 *
 * A loop is a reduction that has nothing to combine. */

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

STI_CALLING_CODE static int do_piece(struct part *part, size_t end)
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

/* The upper half is forked. When that did not answer the question, forks up to here are not shared: nor will the next
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

STI_CALLING_CODE static int part_halve(struct part *part)
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
            return part_halve(part);
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
    sti_interrupt_near_stack_end();
    range->smallest = grain != 0 ? grain : 1;
    range->largest = grain != 0 ? grain : (end - begin) / PIECES;
    atomic_init(&range->failed, false);
    struct part all = { range, begin, end, accumulator };
    return do_part(&all, true);
}

int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    struct range range = { .fn = fn, .arg = arg };
    return fn != NULL ? do_range(&range, begin, end, grain, NULL) : EINVAL;
}

int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *arg, void *result)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (reduction == NULL || reduction->accumulate == NULL || reduction->combine == NULL || result == NULL)
        return EINVAL;
    struct range range = { .reduction = reduction, .arg = arg };
    clear_accumulator(reduction, result);
    return do_range(&range, begin, end, grain, result);
}

/* --- The merge sort of stint/fork.h. Any thread.
 *
 * The elements go back and forth between the caller's array and one of the same size; each half is sorted into the one
 * that it will not be merged into. A merge of two long runs is halved at the middle of the longer one. */

#define INSERTED 12      /* elements that are sorted by insertion */
#define SORT_GRAIN 256   /* elements that are sorted without a fork */
#define MERGE_GRAIN 4096 /* elements that are merged without one */

struct order {
    stint_compare_fn *compare;
    void *arg;
    size_t size;
};

static inline __attribute__((always_inline)) bool is_behind(const struct order *order, const char *a, const char *b)
{
    return order->compare(a, b, order->arg) > 0;
}

/* --- With a size that the compiler may know --- */

static inline __attribute__((always_inline)) void items_copy(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
}

static inline __attribute__((always_inline)) void merge_sized(const struct order *order, const char *a,
                                                              const char *a_end, const char *b, const char *b_end,
                                                              char *to, size_t size)
{
    while (a < a_end && b < b_end) {
        const char **first = is_behind(order, a, b) ? &b : &a;
        items_copy(to, *first, size);
        *first += size;
        to += size;
    }
    memcpy(to, a, (size_t)(a_end - a));
    memcpy(to + (a_end - a), b, (size_t)(b_end - b));
}

STI_CALLING_CODE static void merge_plainly(const struct order *order, const char *a, const char *a_end, const char *b,
                                           const char *b_end, char *to)
{
    switch (order->size) {
    case 4:
        merge_sized(order, a, a_end, b, b_end, to, 4);
        break;
    case 8:
        merge_sized(order, a, a_end, b, b_end, to, 8);
        break;
    default:
        merge_sized(order, a, a_end, b, b_end, to, order->size);
    }
}

STI_CALLING_CODE static void insert_each(const struct order *order, const char *from, size_t count, char *to)
{
    size_t size = order->size;
    for (size_t i = 0; i < count; i++) {
        const char *element = from + i * size;
        size_t at = i;
        while (at > 0 && is_behind(order, to + (at - 1) * size, element))
            at--;
        memmove(to + (at + 1) * size, to + at * size, (i - at) * size);
        memcpy(to + at * size, element, size);
    }
}

/* --- Merging --- */

struct merge {
    const struct order *order;
    const char *a;
    size_t a_count;
    const char *b; /* what is equal comes behind that of a */
    size_t b_count;
    char *to;
};

/* How many of the sorted elements come before this one; with equal ones, or without. */
STI_CALLING_CODE static size_t count_before(const struct order *order, const char *elements, size_t count,
                                            const char *element, bool with_equal)
{
    size_t min = 0;
    while (min < count) {
        size_t middle = min + (count - min) / 2;
        const char *other = elements + middle * order->size;
        bool is_before = with_equal ? !is_behind(order, other, element) : is_behind(order, element, other);
        if (is_before)
            min = middle + 1;
        else
            count = middle;
    }
    return min;
}

static int parallel_merge(void *argument, void **value)
{
    const struct merge *whole = argument;
    const struct order *order = whole->order;
    size_t size = order->size;
    (void)value;
    if (whole->a_count + whole->b_count <= MERGE_GRAIN) {
        merge_plainly(order, whole->a, whole->a + whole->a_count * size, whole->b, whole->b + whole->b_count * size,
                      whole->to);
        return 0;
    }
    size_t a_count = whole->a_count / 2;
    size_t b_count = whole->b_count / 2;
    if (whole->a_count >= whole->b_count)
        b_count = count_before(order, whole->b, whole->b_count, whole->a + a_count * size, false);
    else
        a_count = count_before(order, whole->a, whole->a_count, whole->b + b_count * size, true);
    struct merge lower = { order, whole->a, a_count, whole->b, b_count, whole->to };
    struct merge upper = { order,
                           whole->a + a_count * size,
                           whole->a_count - a_count,
                           whole->b + b_count * size,
                           whole->b_count - b_count,
                           whole->to + (a_count + b_count) * size };
    __attribute__((cleanup(stint_fork_drop))) stint_subtask subtask;
    stint_fork(&subtask, parallel_merge, &upper);
    int error = parallel_merge(&lower, NULL);
    return error != 0 ? error : stint_join(&subtask, NULL);
}

/* --- Sorting --- */

struct sort {
    const struct order *order;
    char *elements;
    size_t count;
    char *other; /* room for as many */
    bool into_other;
};

static int parallel_sort(void *argument, void **value);

static int sort_halves(struct sort *lower, struct sort *upper)
{
    __attribute__((cleanup(stint_fork_drop))) stint_subtask subtask = { .place_ = STINT_FORK_JOINED_ };
    bool forks = lower->count + upper->count > SORT_GRAIN;
    if (forks)
        stint_fork(&subtask, parallel_sort, upper);
    int error = parallel_sort(lower, NULL);
    if (error != 0)
        return error;
    return forks ? stint_join(&subtask, NULL) : parallel_sort(upper, NULL);
}

static int parallel_sort(void *argument, void **value)
{
    struct sort *whole = argument;
    const struct order *order = whole->order;
    size_t count = whole->count;
    (void)value;
    if (count <= INSERTED) {
        insert_each(order, whole->elements, count, whole->other);
        if (!whole->into_other)
            memcpy(whole->elements, whole->other, count * order->size);
        return 0;
    }
    size_t half = count / 2;
    size_t offset = half * order->size;
    struct sort lower = { order, whole->elements, half, whole->other, !whole->into_other };
    struct sort upper = { order, whole->elements + offset, count - half, whole->other + offset, !whole->into_other };
    int error = sort_halves(&lower, &upper);
    if (error != 0)
        return error;
    const char *from = whole->into_other ? whole->elements : whole->other;
    char *to = whole->into_other ? whole->other : whole->elements;
    return parallel_merge(&(struct merge){ order, from, half, from + offset, count - half, to }, NULL);
}

static void free_other(void **other)
{
    stint_free(*other);
}

int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (compare == NULL || size == 0 || (base == NULL && count > 0))
        return EINVAL;
    if (count < 2)
        return 0;
    sti_interrupt_near_stack_end();
    __attribute__((cleanup(free_other))) void *other = stint_reallocarray(NULL, count, size);
    if (other == NULL)
        return ENOMEM;
    const struct order order = { compare, arg, size };
    struct sort all = { &order, base, count, other, false };
    return parallel_sort(&all, NULL);
}
