/* SPDX-License-Identifier: MIT
 *
 * The C++ runtimes of the process: their state of exceptions, and which of their functions allocate for themselves. */
#ifndef STI_ALLOC_INTERRUPT_CXX_H
#define STI_ALLOC_INTERRUPT_CXX_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"

/* --- The C++ runtimes of the process, if it has any: their functions, and each thread's records of exceptions. The
 * library links none. Any thread.
 *
 * There may be several: the program's, and those that modules were linked with (-static-libstdc++), each with records
 * of its own. A runtime is seen if its module lets others see __cxa_get_globals, as the linker does for a program that
 * is linked with this library; one that hides all its symbols is not. */

/* Look for runtimes that came with modules since the last time, also those of a module that was loaded for itself
 * (RTLD_LOCAL). True: there is a new one. Not in signal handlers. A few nanoseconds when nothing has been loaded. */
bool sti_cxx_look(void);

extern atomic_bool sti_cxx_has_runtime __attribute__((visibility("hidden")));
void sti_cxx_note_all(struct sti_cxx_state *state);

static inline void sti_cxx_note(struct sti_cxx_state *state)
{
    state->count = 0;
    if (atomic_load_explicit(&sti_cxx_has_runtime, memory_order_relaxed))
        sti_cxx_note_all(state);
}

/* Runtimes found since then had neither caught nor thrown anything. */
void sti_cxx_extend(struct sti_cxx_state *state);

/* Since that moment: is an exception on its way that was not, is the thread in a catch block that it was not in? */
bool sti_cxx_is_throwing(const struct sti_cxx_state *since);
bool sti_cxx_is_catching(const struct sti_cxx_state *since);

/* Is it in any catch block? */
bool sti_cxx_catches_any(void);

/* Make the records what they were, or: with nothing caught; with so many more on their way. */
void sti_cxx_restore(const struct sti_cxx_state *state);
void sti_cxx_forget_caught(void);
void sti_cxx_set_uncaught(const struct sti_cxx_state *state, unsigned more);

/* One fewer is on its way, and caught is what it was. */
void sti_cxx_keep_caught(const struct sti_cxx_state *state);

/* A function of the runtime that the caller's module uses: its own, or else anybody's; NULL: there is none. Cold. */
void *sti_cxx_function(const char *name, const void *caller);

/* --- What libstdc++ allocates for itself: caches of a locale's facets, made when a number is first formatted in it,
 * locales, free lists. They outlive the task that happened to be running, so their blocks are the process's, as libc's
 * are. They are told by the function that asks for the block. What libstdc++ allocates for its user, such as a string
 * that grows, is the task's. */

/* The code of libstdc++, with a bit for each 16 bytes; size 0 as long as it is not known. Set once. */
struct sti_cxx_code {
    struct sti_caller_module module;
    const uint64_t *caches;
};
extern _Atomic(const struct sti_cxx_code *) sti_cxx_code __attribute__((visibility("hidden")));

/* Learn the functions of a module, if it is libstdc++ and the first. Not in signal handlers. */
void sti_cxx_caches_learn(struct sti_module module, const char *path, struct sti_caller_module code);

/* Is the block one of those? */
static inline bool sti_cxx_caches_ask(const void *caller)
{
    const struct sti_cxx_code *code = atomic_load_explicit(&sti_cxx_code, memory_order_acquire);
    uintptr_t offset = (uintptr_t)caller - code->module.begin;
    return __builtin_expect(offset < code->module.size, 0) &&
           (code->caches[offset / 1024] >> offset / 16 % 64 & 1) != 0;
}

#endif
