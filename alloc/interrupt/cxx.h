/* SPDX-License-Identifier: MIT
 *
 * The C++ runtimes of the process: their state of exceptions, which of their languages an unwind may ask, and the
 * caches of their locales. */
#ifndef STI_ALLOC_INTERRUPT_CXX_H
#define STI_ALLOC_INTERRUPT_CXX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/platform/scope_state.h"

/* --- The C++ runtimes of the process, if it has any: their functions, and each thread's records of exceptions. The
 * library links none. Any thread.
 *
 * There may be several: the program's, and those that modules were linked with (-static-libstdc++), each with records
 * of its own. A runtime is seen if its module lets others see __cxa_get_globals, as the linker does for a program that
 * is linked with this library; one that hides all its symbols is not. */

/* Look for runtimes that came with modules since the last time, also those of a module that was loaded for itself
 * (RTLD_LOCAL). Not in signal handlers. A few nanoseconds when nothing has been loaded. */
void sti_cxx_look(void);

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

/* Is the block for an exception that is about to be thrown? Of one that does not get it the runtime keeps a few for the
 * whole process, and each that nobody destroys is lost to all. Cold. */
bool sti_cxx_allocates_exception(const void *caller);

/* Since that moment: is an exception on its way that was not, beside so many that are ours; is the thread in a catch
 * block that it was not in? */
bool sti_cxx_is_throwing(const struct sti_cxx_state *since, unsigned ours);
bool sti_cxx_is_catching(const struct sti_cxx_state *since);

/* Is it in any catch block? */
bool sti_cxx_catches_any(void);

/* End the catch blocks that it has gone into since, newest first, so that what they have caught is destroyed; where an
 * unwind is under way, those up to the block that has caught it, which ours is then (NULL: there is none). */
void sti_cxx_end_caught(const struct sti_cxx_state *since, const struct _Unwind_Exception *ours);

/* Make the records what they were, or: with nothing caught; with so many more on their way. */
void sti_cxx_restore(const struct sti_cxx_state *state);
void sti_cxx_forget_caught(void);
void sti_cxx_set_uncaught(const struct sti_cxx_state *state, unsigned more);

/* One fewer is on its way, and caught is what it was. */
void sti_cxx_keep_caught(const struct sti_cxx_state *state);

/* A function of the runtime that the caller's module uses: its own, or else anybody's; NULL: there is none. Cold. */
void *sti_cxx_function(const char *name, const void *caller);

/* The personality of a frame, which says what the frame does with an exception: may an unwind ask it? It may be that of
 * C, or of a runtime that calls our std::terminate where no exception may pass. 0: no. */
bool sti_cxx_may_be_asked(uintptr_t personality);

/* --- What libstdc++ fills when something is first formatted in a locale: a cache for each facet, which it keeps with
 * the locale. One that a task fills for a locale that is not the task's own is kept at a rollback, as what a static
 * variable points to is. Any thread. */

/* False: out of memory. */
bool sti_cxx_cache_note(const void *locale, const void *facet);

/* The locale ends. */
void sti_cxx_caches_forget(const void *locale);

typedef void sti_cxx_cache_fn(const void *locale, const void *facet, void *arg);
void sti_cxx_caches_visit(sti_cxx_cache_fn *visit, void *arg);

#endif
