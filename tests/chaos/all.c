/* SPDX-License-Identifier: MIT
 *
 * What the chaos program runs. */
#include "library.h"

const struct chaos_library *const chaos_libraries[] = {
    &chaos_xml,    &chaos_sql,        &chaos_lua,  &chaos_json,     &chaos_regex,  &chaos_deflate,
    &chaos_expat,  &chaos_javascript, &chaos_libc, &chaos_holds,    &chaos_thread, &chaos_handles,
    &chaos_caches, &chaos_pool,       &chaos_cxx,  &chaos_mappings, NULL,
};
