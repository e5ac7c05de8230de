/* SPDX-License-Identifier: MIT
 *
 * The work of tests/wall/libraries and tests/libraries, in the form of this program. CHAOS_WORK is its name there. */
#include "../library.h"

#include "../../wall/libraries/library.h"

static int run(unsigned variant, uint64_t *sum)
{
    return CHAOS_WORK.work(variant, sum);
}

/* Where the version is asked for of the package: no file of this folder knows these libraries. */
const struct chaos_library CHAOS_ONE = {
    .name = CHAOS_NAME,
    .modes = CHAOS_WORK_MODES,
    .run = run,
    .modules = CHAOS_MODULES,
};
