/* SPDX-License-Identifier: MIT
 *
 * For the recipes of docs/wall.md: a wall that the recipe makes, and a pool. */
#ifndef TESTS_RECIPES_WALLED_H
#define TESTS_RECIPES_WALLED_H

#include "../walls.h"

#define TEN_SECONDS UINT64_C(10000000000)

struct fixture {
    stint_wall *wall;
    stint_pool *pool;
};

static inline struct fixture begin(int make(stint_wall **wall))
{
    struct fixture fixture;
    assert_int_equal(make(&fixture.wall), 0);
    fixture.pool = make_pool(.workers = 2);
    return fixture;
}

static inline void end(struct fixture fixture)
{
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(count_processes(), 0);
}

#endif
