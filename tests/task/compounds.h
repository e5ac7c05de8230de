/* SPDX-License-Identifier: MIT
 *
 * Making compound futures and asking which of them was first, for tests of them. */
#ifndef TESTS_COMPOUNDS_H
#define TESTS_COMPOUNDS_H

#include "pools.h"

static inline stint_future *all_of(stint_future *const *futures, size_t count)
{
    stint_future *all = NULL;
    assert_int_equal(stint_when_all(futures, count, &all), 0);
    return all;
}

static inline stint_future *any_of(stint_future *const *futures, size_t count)
{
    stint_future *any = NULL;
    assert_int_equal(stint_when_any(futures, count, &any), 0);
    return any;
}

static inline size_t index_of(stint_future *any)
{
    size_t index = SIZE_MAX;
    assert_int_equal(stint_when_any_index(any, &index), 0);
    return index;
}

#endif
