/* SPDX-License-Identifier: MIT
 *
 * How long a test goes on that does something at random. */
#ifndef TESTS_REPEATS_H
#define TESTS_REPEATS_H

#include <stdint.h>
#include <stdlib.h>

/* As often as here, or a part of that where the environment says how many hundredths. scripts/test says so where each
 * takes long. At least once. */
static inline unsigned repeats(unsigned whole)
{
    const char *share = getenv("STINT_TESTS_SHARE");
    unsigned part = share == NULL ? whole : (unsigned)((uint64_t)whole * strtoul(share, NULL, 10) / 100);
    return part > 0 ? part : 1;
}

#endif
