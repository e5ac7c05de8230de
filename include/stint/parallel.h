/* SPDX-License-Identifier: MIT
 *
 * Loops, reductions and sorting by fork and join (fork.h), inside one task: bounded like it, interrupted with it, and
 * what they allocate is the task's. Any thread; where forks run only in their joins (fork.h), all of a loop runs on the
 * calling thread.
 *
 * Splitting is lazy, after Tzannes and others (2010): a range is worked through from its beginning, and halved only
 * when a worker of the pool has asked for work. So a range that no other worker has time for costs hardly more than a
 * loop. Sorting is a merge sort whose merges are split as well, after Cormen and others (Introduction to
 * Algorithms). */
#ifndef STINT_PARALLEL_H
#define STINT_PARALLEL_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Do what is to be done for begin <= i < end, which is not empty. 0, or an error that ends the whole loop. */
typedef int stint_range_fn(size_t begin, size_t end, void *arg);

/* Call fn for pieces that together are the range, each index once, in no particular order.
 *
 * grain is the number of indices that a call gets (fewer at the end of the range): choose it so that a call takes some
 * microseconds; the pieces are then always the same. 0: the library chooses, beginning with 1 and doubling up to a
 * 512th of the range; the pieces then depend on which workers have time.
 *
 * 0, also for an empty range; what a call returned that was not 0 (of several the one of the lowest index; pieces that
 * have not begun by then are left out); EINVAL: fn is NULL; ECANCELED: as stint_join. */
STINT_API int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg);

/* Add what belongs to begin <= i < end, which is not empty, to the accumulator. 0, or an error that ends the whole
 * reduction. */
typedef int stint_accumulate_fn(size_t begin, size_t end, void *accumulator, void *arg);

/* Add to an accumulator what another one got from the range right behind. Must be associative, need not be commutative.
 * How often it is called, and on what pieces, depends on which workers have time: floating-point sums may differ in
 * their last digits. */
typedef void stint_combine_fn(void *accumulator, const void *behind, void *arg);

/* How to reduce a range to one value, in an accumulator of so many bytes. */
typedef struct stint_reduction {
    size_t size;
    const void *neutral; /* the bytes that an accumulator begins with; NULL: zeros */
    stint_accumulate_fn *accumulate;
    stint_combine_fn *combine;
} stint_reduction;

/* Reduce the range into *result, which is overwritten. grain as for stint_for. Accumulators of more than 256 bytes are
 * allocated, one for each time that a range is halved; where there is no memory for one, the range is not halved.
 *
 * 0; what accumulate returned, as for stint_for (*result is then of no use); EINVAL: reduction, one of its functions or
 * result is NULL; ECANCELED: as stint_join. */
STINT_API int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *arg,
                           void *result);

/* Less than 0 if a belongs before b, 0 if they are equal, more than 0 if a belongs behind b. */
typedef int stint_compare_fn(const void *a, const void *b, void *arg);

/* Sort count elements of size bytes, stably. Allocates as much memory as the elements take, until it returns. An
 * interrupt leaves the elements in any order, some twice and some not at all.
 *
 * 0; EINVAL: compare is NULL, size is 0, or base is NULL and count is not 0; ENOMEM (nothing was moved); ECANCELED: as
 * stint_join, and the elements are left as by an interrupt. */
STINT_API int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg);

STINT_END_DECLS

#endif
