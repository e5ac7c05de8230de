/* SPDX-License-Identifier: MIT
 *
 * Whose functions the program uses; include/stint/link.h says why that matters. Any thread. */
#ifndef STI_ALLOC_LINKAGE_H
#define STI_ALLOC_LINKAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stint/link.h>

/* Set by the first call that runs something, where all functions are ours. That stays so: what is loaded later comes later in
 * the order of the search. */
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

/* Is the malloc that the program uses ours? Where it is not, what we make for a caller to free has to come from that one.
 * Before this library's constructors too. */
bool sti_link_has_malloc(void);

#endif
