/* SPDX-License-Identifier: MIT
 *
 * What a chaos program of one library runs; CHAOS_ONE names it. */
#include "library.h"

const struct chaos_library *const chaos_libraries[] = { &CHAOS_ONE, NULL };
