/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of profiles: starting one, its sums, and tasks that allocate. */
#ifndef TESTS_PROFILE_H
#define TESTS_PROFILE_H

#include "support.h"

#define INTERVAL 4096

static inline void start_profile(uint64_t seed)
{
    stint_profile_options options = {
        .size = sizeof(stint_profile_options), .interval = INTERVAL, .callstack_depth = 32, .seed = seed
    };
    assert_int_equal(stint_profile_start(&options), 0);
}

static inline stint_profile_totals totals_now(void)
{
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    assert_int_equal(stint_profile_read(&totals), 0);
    assert_int_equal(totals.lost, 0);
    return totals;
}

static inline void assert_same_totals(const stint_profile_totals *one, const stint_profile_totals *other)
{
    assert_memory_equal(one, other, sizeof *one);
}

static __attribute__((noinline, unused)) int churn(void *count, void **value)
{
    (void)value;
    for (size_t i = 0; i < *(size_t *)count; i++)
        stint_free(keep(stint_malloc(16 + i % 2000)));
    return 0;
}

static __attribute__((noinline, unused)) int hold(void *count, void **value)
{
    void **newest = NULL;
    for (size_t i = 0; i < *(size_t *)count; i++) {
        void **block = stint_malloc(16 + i % 2000);
        if (block == NULL)
            return 1;
        *block = newest;
        newest = block;
    }
    *value = newest;
    return 0;
}

static inline void free_all(void **block)
{
    while (block != NULL) {
        void **next = *block;
        stint_free(block);
        block = next;
    }
}

#endif
