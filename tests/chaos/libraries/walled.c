/* SPDX-License-Identifier: MIT
 *
 * The work of this program, in the form of tests/wall/libraries. */
#include "../library.h"

#include "../../wall/libraries/library.h"

#define READS 4

static int work(uint32_t seed, uint64_t *sum)
{
    static bool is_prepared;
    if (!is_prepared && CHAOS_ONE.prepare != NULL)
        CHAOS_ONE.prepare();
    if (!is_prepared && CHAOS_ONE.ready != NULL)
        CHAOS_ONE.ready();
    is_prepared = true;
    return CHAOS_ONE.run(seed % CHAOS_VARIANTS, sum) == 0 ? 0 : ENOMEM;
}

const struct library library_one = { CHAOS_NAME, { CHAOS_READS NULL }, work };
