/* SPDX-License-Identifier: MIT
 *
 * Oniguruma: a pattern is compiled and searched for. */
#include "library.h"

#include <oniguruma.h>

static const char *const patterns[CHAOS_VARIANTS] = {
    "(\\w+)@(\\w+)", "\\d+\\.\\d+", "(?i:([aeiou]))\\w+\\1", "(?<w>\\w+) \\k<w>", "[^,;]+[,;]", "(?<=a)b(?!a)",
};
static const char text[] =
    "abababc, some user@host.com asked 10.0.0.17; the the AeroplanE went to you@there.com, and on";

static int search_all(regex_t *regex, OnigRegion *region, uint64_t *sum)
{
    const OnigUChar *begin = (const OnigUChar *)text, *end = begin + sizeof text - 1, *at = begin;
    int found = 0;
    while (at < end && found >= 0) {
        found = onig_search(regex, begin, end, at, end, region, ONIG_OPTION_NONE);
        if (found >= 0) {
            chaos_add_number(sum, (uint64_t)found * 1000 + (uint64_t)region->end[0]);
            at = begin + region->end[0] > at ? begin + region->end[0] : at + 1;
        }
    }
    return found >= 0 || found == ONIG_MISMATCH ? 0 : found;
}

static int run(unsigned variant, uint64_t *sum)
{
    const OnigUChar *pattern = (const OnigUChar *)patterns[variant];
    regex_t *regex = NULL;
    OnigErrorInfo info;
    int error = onig_new(&regex, pattern, pattern + strlen(patterns[variant]), ONIG_OPTION_DEFAULT, ONIG_ENCODING_ASCII,
                         ONIG_SYNTAX_DEFAULT, &info);
    if (error != ONIG_NORMAL)
        return -1;
    OnigRegion *region = onig_region_new();
    error = region != NULL ? search_all(regex, region, sum) : -1;
    if (region != NULL)
        onig_region_free(region, 1);
    onig_free(regex);
    return error;
}

static void ready(void)
{
    OnigEncoding encodings[] = { ONIG_ENCODING_ASCII };
    onig_initialize(encodings, 1);
}

const struct chaos_library CHAOS_ONE = {
    .name = "Oniguruma",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .modules = "libonig",
    .version = onig_version,
};
