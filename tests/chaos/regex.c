/* SPDX-License-Identifier: MIT
 *
 * PCRE2: a pattern is compiled, matched all over a text, and used to substitute; one pattern backtracks so deeply that
 * matching has to allocate. Keeps nothing outside of its objects. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "library.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

static char text[8192];

static void prepare(void)
{
    size_t length = 0;
    for (unsigned i = 0; i < 120; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%u-%u-%02u user%u@host%u.example aaaaaaaa%u; ",
                                   2000 + i % 30, i % 12 + 1, i % 28 + 1, i, i * 7, i);
}

static const char *const patterns[CHAOS_VARIANTS] = {
    "(\\d{4})-(\\d{1,2})-(\\d{2})",
    "(?<user>[a-z]+\\d+)@(?<host>[\\w.]+)",
    "(?:(?:a|(b))*)(\\d+);",
    "\\b(?=\\w*7)\\w+\\b",
    "(?i)USER(\\d+)@HOST(\\d+)\\.example(?! aaaaaaaa5)",
    "([^;]*?;)(?1)",
};

/* Compiled in for every other pattern: asked before each item of it. A number below 0 ends the match. */
static int look(pcre2_callout_block *block, void *unused)
{
    (void)block;
    (void)unused;
    stint_checkpoint();
    return stint_is_interrupted() ? PCRE2_ERROR_CALLOUT : 0;
}

static int add_matches(const pcre2_code *code, pcre2_match_data *match, pcre2_match_context *context, uint64_t *sum)
{
    size_t at = 0;
    size_t length = strlen(text);
    int count;
    while ((count = pcre2_match(code, (PCRE2_SPTR)text, length, at, 0, match, context)) > 0) {
        const size_t *ends = pcre2_get_ovector_pointer(match);
        chaos_add_number(sum, ends[0]);
        chaos_add_number(sum, ends[1]);
        at = ends[1] > at ? ends[1] : at + 1;
    }
    return count == PCRE2_ERROR_NOMATCH ? 0 : count;
}

static int add_substitution(const pcre2_code *code, uint64_t *sum)
{
    size_t size = sizeof text * 2;
    PCRE2_UCHAR *out = malloc(size);
    if (out == NULL)
        return PCRE2_ERROR_NOMEMORY;
    int count = pcre2_substitute(code, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, PCRE2_SUBSTITUTE_GLOBAL, NULL, NULL,
                                 (PCRE2_SPTR) "<$0>", PCRE2_ZERO_TERMINATED, out, &size);
    if (count >= 0)
        chaos_add(sum, out, size);
    free(out);
    return count >= 0 ? 0 : count;
}

static int run(unsigned variant, uint64_t *sum)
{
    int error = PCRE2_ERROR_NOMEMORY;
    size_t where;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)patterns[variant], PCRE2_ZERO_TERMINATED,
                                     variant % 2 == 0 ? PCRE2_AUTO_CALLOUT : 0, &error, &where, NULL);
    if (code == NULL)
        return error;
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    error = PCRE2_ERROR_NOMEMORY;
    if (match != NULL && context != NULL) {
        pcre2_set_callout(context, look, NULL);
        error = add_matches(code, match, context, sum);
    }
    if (error == 0)
        error = add_substitution(code, sum);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return error;
}

const struct chaos_library chaos_regex = {
    .name = "pcre2",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libpcre2-8",
};
