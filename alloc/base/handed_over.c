/* SPDX-License-Identifier: MIT
 *
 * Functions of libc's that allocate for their caller; see handed_over.h. */
#include "handed_over.h"

#include <stdatomic.h>
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

struct found {
    struct sti_caller_module functions[NAMES];
    struct sti_caller_module all; /* from the first of them to the last */
};

/* Looked for when libc first allocates in a scope: many programs never come to that.
 *
 *   UNKNOWN -> NOTED_DOWN (relaxed: who does it writes alone) -> KNOWN (release: acquire finds it whole)
 *
 * Others look for themselves meanwhile; and so does the child of a fork that came in between, each time. */
enum { UNKNOWN, NOTED_DOWN, KNOWN };
static struct found known;
static atomic_int state;

static void find_functions(struct found *found)
{
    uintptr_t first = UINTPTR_MAX;
    uintptr_t last = 0;
    *found = (struct found){ .all.size = 0 };
    for (size_t i = 0; i < NAMES; i++) {
        uintptr_t begin;
        uintptr_t end;
        uintptr_t function = (uintptr_t)sti_libc_function(names[i]);
        if (function == 0 || !sti_frame_function(function, &begin, &end))
            continue;
        found->functions[i] = (struct sti_caller_module){ .begin = begin, .size = end - begin };
        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    if (first < last)
        found->all = (struct sti_caller_module){ .begin = first, .size = last - first };
}

static __attribute__((noinline)) const struct found *find(struct found *found)
{
    int before = UNKNOWN;
    find_functions(found);
    if (atomic_compare_exchange_strong_explicit(&state, &before, NOTED_DOWN, memory_order_relaxed,
                                                memory_order_relaxed)) {
        known = *found;
        atomic_store_explicit(&state, KNOWN, memory_order_release);
    }
    return found;
}

static bool is_in(const struct found *found, const void *call)
{
    if (!sti_caller_in(&found->all, call) || !sti_rule_is_on(STI_RULE_HANDED_OVER))
        return false;
    size_t i = 0;
    while (i < NAMES && !sti_caller_in(&found->functions[i], call))
        i++;
    return i < NAMES && (i != TSEARCH || sti_handed_over_search);
}

static __attribute__((noinline)) bool is_in_when_found(const void *call)
{
    struct found found;
    return is_in(find(&found), call);
}

bool sti_handed_over(const void *caller)
{
    /* A return address may lie behind the last instruction of its function. */
    const void *call = (const char *)caller - 1;
    if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) != KNOWN, 0))
        return is_in_when_found(call);
    return is_in(&known, call);
}
