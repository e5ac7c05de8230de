/* SPDX-License-Identifier: MIT
 *
 * PCRE2 with its just-in-time compiler: an interrupt waits under the code that it makes. */
#include "library.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static const char *const patterns[CHAOS_VARIANTS] = {
    "(\\w+)@(\\w+)\\.com", "\\b(\\d{1,3}\\.){3}\\d{1,3}\\b", "(?i)([aeiou])(?=\\w+\\1)",
    "^(?:a|b|ab)*c",       "(?<word>\\w+) \\k<word>",        "[^,;]+(?:[,;]|$)",
};
static const char text[] =
    "abababc, some user@host.com asked 10.0.0.17; the the AeroplanE went to you@there.com, and on";

static int match_all(const pcre2_code *code, pcre2_match_data *data, uint64_t *sum)
{
    PCRE2_SIZE at = 0;
    int result = 1;
    while (at < sizeof text - 1 && result >= 0) {
        result = pcre2_match(code, (PCRE2_SPTR)text, sizeof text - 1, at, 0, data, NULL);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        if (result > 0) {
            chaos_add_number(sum, found[0] * 1000 + found[1]);
            at = found[1] > at ? found[1] : at + 1;
        }
    }
    return result >= 0 || result == PCRE2_ERROR_NOMATCH ? 0 : result;
}

static int run(unsigned variant, uint64_t *sum)
{
    int error;
    PCRE2_SIZE where;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)patterns[variant], PCRE2_ZERO_TERMINATED, 0, &error, &where, NULL);
    if (code == NULL)
        return -1;
    error = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    pcre2_match_data *data = error == 0 ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    error = data != NULL ? match_all(code, data, sum) : -1;
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return error;
}

static const char *version(void)
{
    static char text_of_version[32];
    pcre2_config(PCRE2_CONFIG_VERSION, text_of_version);
    return text_of_version;
}

const struct chaos_library CHAOS_ONE = {
    .name = "PCRE2 with JIT",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libpcre2-8",
    .version = version,
};
