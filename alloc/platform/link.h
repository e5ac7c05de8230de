/* SPDX-License-Identifier: MIT
 *
 * Whose functions the program uses, which include/stint/stint.h says why that matters; and whether its mimalloc is the
 * one that this library was compiled for. Any thread. */
#ifndef STI_ALLOC_PLATFORM_LINK_H
#define STI_ALLOC_PLATFORM_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stint/stint.h>

/* Set by the first call that runs something, where all functions are ours. That stays so: what is loaded later comes
 * later in the order of the search. */
extern atomic_bool sti_link_is_good __attribute__((visibility("hidden")));

/* The same before that is known, and where the flags may allow it all the same. */
bool sti_link_allows_uncommon(unsigned flags);

/* May something be run with these flags of its options? */
static inline bool sti_link_allows(unsigned flags)
{
    return __builtin_expect(atomic_load_explicit(&sti_link_is_good, memory_order_relaxed), 1) ||
           sti_link_allows_uncommon(flags);
}

static inline bool sti_link_flags_valid(unsigned flags)
{
    return (flags & ~STINT_ALLOW_UNMETERED) == 0;
}

/* Is the malloc that the program uses ours? Where it is not, what we make for a caller to free has to come from that
 * one. Looked for at the first question, and not at start: the loader's answers take 0.2 ms of each process. */
bool sti_link_has_malloc(void);

/* Is the std::terminate ours that a C++ runtime has the loader look for, and std::set_terminate? Cold. */
bool sti_link_has_terminate(void);

/* Was it at the first question, or was there none, and is the unwinder there? Where not, no code is unwound
 * (unwind.h). */
bool sti_link_unwinds(void);

/* --- Is the mimalloc that runs the one that this library was compiled for? Any thread. --- */

/* 0; ENOTSUP: its heaps are not as this library knows them (assumption.h); or the loader found one that is older than
 * the header that this library was compiled with, or of another major version: what the header says of its heaps is not
 * true of it. A newer one is what its packagers call compatible, so that an upgrade needs no new build. */
int sti_backend_check(void);

#endif
