/* SPDX-License-Identifier: MIT
 *
 * Functions of libc's that allocate for their caller; see handed_over.h. */
#include "handed_over.h"

#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "callstack.h"
#include "module.h"
#include "rules.h"

/* backtrace_symbols makes pointers into its block, tsearch and _obstack_newchunk pointers to it. */
static const char *const names[] = {
    "tsearch",     "_obstack_begin", "_obstack_begin_1", "_obstack_newchunk", "backtrace_symbols",
    "argz_add",    "argz_add_sep",   "argz_append",      "argz_create",       "argz_create_sep",
    "argz_insert", "argz_replace",   "envz_add",         "envz_merge",        "wcsdup",
};
#define NAMES (sizeof names / sizeof *names)
#define TSEARCH 0

_Thread_local bool sti_handed_over_search;

static struct sti_caller_module functions[NAMES];
static struct sti_caller_module all; /* from the first of them to the last */

__attribute__((constructor)) static void find_functions(void)
{
    uintptr_t first = UINTPTR_MAX;
    uintptr_t last = 0;
    for (size_t i = 0; i < NAMES; i++) {
        uintptr_t begin;
        uintptr_t end;
        uintptr_t function = (uintptr_t)sti_libc_function(names[i]);
        if (function == 0 || !sti_frame_function(function, &begin, &end))
            continue;
        functions[i] = (struct sti_caller_module){ .begin = begin, .size = end - begin };
        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    if (first < last)
        all = (struct sti_caller_module){ .begin = first, .size = last - first };
}

bool sti_handed_over(const void *caller)
{
    /* A return address may lie behind the last instruction of its function. */
    const void *call = (const char *)caller - 1;
    if (!sti_caller_in(&all, call) || !sti_rule_is_on(STI_RULE_HANDED_OVER))
        return false;
    size_t i = 0;
    while (i < NAMES && !sti_caller_in(&functions[i], call))
        i++;
    return i < NAMES && (i != TSEARCH || sti_handed_over_search);
}
