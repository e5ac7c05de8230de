/* SPDX-License-Identifier: MIT
 *
 * May the code of a task be left here? See safe.h. */
#include "safe.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/platform/assumption.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "boundary.h"
#include "hold.h"

/* --- Functions of libc's that only look at memory or copy it. They call nothing but each other and what has no name
 * (as memcpy does that is not written for its processor), and have nothing, not even for a while: stopped at any
 * instruction they are as the code that has called them. --- */

static const char *const pure_names[] = {
    "memcmp",       "bcmp",          "memcpy",       "memmove",       "mempcpy",      "memset",        "bzero",
    "memccpy",      "memchr",        "memrchr",      "rawmemchr",     "memmem",       "strlen",        "strnlen",
    "strcmp",       "strncmp",       "strcasecmp",   "strcasecmp_l",  "strncasecmp",  "strncasecmp_l", "strchr",
    "strrchr",      "strchrnul",     "strstr",       "strcasestr",    "strspn",       "strcspn",       "strpbrk",
    "strcpy",       "strncpy",       "stpcpy",       "stpncpy",       "strcat",       "strncat",       "wmemset",
    "wmemcmp",      "wmemchr",       "wcslen",       "wcscmp",        "__memcpy_chk", "__memmove_chk", "__memset_chk",
    "__strcpy_chk", "__strncpy_chk", "__strcat_chk", "__strncat_chk",
};
#define PURE (sizeof pure_names / sizeof *pure_names)

static struct sti_caller_module pure[PURE]; /* their code */

static void find_pure(void)
{
    for (size_t i = 0; i < PURE; i++) {
        uintptr_t begin;
        uintptr_t end;
        uintptr_t function = sti_libc_code(pure_names[i]);
        if (function != 0 && sti_frame_function(function, &begin, &end))
            pure[i] = (struct sti_caller_module){ .begin = begin, .size = end - begin };
    }
}

void sti_verdict_prepare(void)
{
    static pthread_once_t found = PTHREAD_ONCE_INIT;
    pthread_once(&found, find_pure);
}

static bool is_pure(uintptr_t instruction)
{
    size_t i = 0;
    while (i < PURE && !sti_caller_in(&pure[i], (const void *)instruction))
        i++;
    return i < PURE;
}

/* --- The frames. --- */

/* What one of them calls that has no name is one of them. */
static void walk_out_of_helper(struct sti_walk *walk)
{
    struct sti_walk helper = *walk;
    if (sti_caller_is_libc((const void *)sti_walk_instruction(walk)) && sti_walk_out(&helper) &&
        is_pure(sti_walk_instruction(&helper)))
        *walk = helper;
}

/* The instruction at which the code was stopped. What this library was doing there is half done. */
static bool is_own_code(struct sti_walk *walk, enum sti_left way)
{
    struct sti_caller_module module = { .size = 0 };
    walk_out_of_helper(walk);
    while (is_pure(sti_walk_instruction(walk))) {
        if (!sti_walk_out(walk))
            return false;
    }
    uintptr_t instruction = sti_walk_instruction(walk);
    return sti_module_may_be_left(instruction, way, &module) && !sti_caller_is_ours(instruction);
}

#define STOPPED_ANYWHERE (STI_LEFT_STOPPED | STI_LEFT_EXHAUSTED)

/* The frame is the caller of one of another module. In a program that this library is linked into, their frames cannot
 * be told apart: then a signal leaves neither, and a sample point leaves both. */
static bool calls_what_may_be_left(uintptr_t instruction, unsigned ways)
{
    bool by_signal = (ways & STOPPED_ANYWHERE) != 0;
    bool is_ours = by_signal ? sti_caller_is_ours(instruction) : sti_caller_is_surely_ours((const void *)instruction);
    return !is_ours || sti_boundary_calls_tasks((const void *)(instruction + 1));
}

/* What a signal's handler has interrupted may be half done, and so is what this library does where it calls others.
 * (The end of the process comes out of what it has called.) The outermost frame is the one that runs the scope. */
static bool walk_arrives(struct sti_walk *walk, unsigned ways)
{
    struct sti_caller_module last = { .size = 0 };
    bool goes_on = true;
    while (goes_on) {
        uintptr_t instruction = sti_walk_instruction(walk);
        bool is_caller = last.size != 0 && !sti_caller_in(&last, (const void *)instruction);
        if (!sti_module_may_be_left(instruction, ways, &last))
            return false;
        if (is_caller && (ways & STI_LEFT_AT_END) == 0 && !calls_what_may_be_left(instruction, ways))
            return false;
        goes_on = sti_walk_out(walk);
        if (goes_on && walk->is_exact)
            return false;
    }
    return walk->past_end && sti_caller_is_ours(sti_walk_instruction(walk));
}

/* A coroutine's stack, or a signal's, that lies above: what is below it on the scope's own is not seen from here. */
static bool can_be_walked(const struct sti_walk *walk)
{
    return sti_assumption_finds_frames() && walk->at.sp < walk->end;
}

static __attribute__((noinline)) bool may_be_left(struct sti_walk *walk, unsigned ways)
{
    struct sti_walk_rules rules;
    memset(&rules, 0, sizeof rules);
    walk->rules = &rules;
    if (!can_be_walked(walk) || ((ways & STOPPED_ANYWHERE) != 0 && !is_own_code(walk, ways)))
        return false;
    return !sti_rule_is_on(STI_RULE_STACK) || walk_arrives(walk, ways);
}

bool sti_verdict_is_own_code(const struct sti_scope *innermost, const struct sti_registers *stopped)
{
    struct sti_walk walk = sti_walk_begin(*stopped, innermost->frame, NULL);
    return can_be_walked(&walk) && is_own_code(&walk, STI_LEFT_STOPPED);
}

bool sti_frames_may_be_left(const struct sti_scope *innermost)
{
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), innermost->frame, NULL);
    return may_be_left(&walk, sti_verdict_way(innermost, NULL));
}

bool sti_frames_may_be_cut(const struct sti_scope *innermost)
{
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), innermost->frame, NULL);
    return may_be_left(&walk, STI_LEFT_BY_JUMP | STI_LEFT_AT_END);
}

static stint_deferral safe_waits_for(const struct sti_scope *innermost, const struct sti_registers *at,
                                     enum sti_left way)
{
    stint_deferral deferral = sti_deferral_of(innermost);
    struct sti_walk walk = sti_walk_begin(*at, innermost->frame, NULL);
    if (deferral == STINT_DEFERRAL_NONE && !may_be_left(&walk, way))
        deferral = STINT_DEFERRAL_FRAME;
    return deferral;
}

stint_deferral sti_verdict(const struct sti_scope *innermost, const struct sti_registers *stopped)
{
    const struct sti_registers at = stopped != NULL ? *stopped : sti_registers_here();
    return safe_waits_for(innermost, &at, sti_verdict_way(innermost, stopped));
}

stint_deferral sti_verdict_at_stack_end(const struct sti_scope *innermost, const struct sti_registers *stopped)
{
    return safe_waits_for(innermost, stopped, STI_LEFT_EXHAUSTED);
}

/* --- What the environment allows. At start. --- */

void sti_verdict_ask_environment(void)
{
    const char *names = secure_getenv("STINT_ALLOW");
    while (names != NULL) {
        const char *end = strchrnul(names, ':');
        char *name = sti_process_lasting_malloc((size_t)(end - names) + 1);
        if (name == NULL)
            return;
        *(char *)mempcpy(name, names, (size_t)(end - names)) = '\0';
        if (end != names && stint_module_allow(name) != 0)
            sti_debug_say("stint: STINT_ALLOW names no module that may be left: %s", name);
        sti_process_free(name);
        names = *end == ':' ? end + 1 : NULL;
    }
}
