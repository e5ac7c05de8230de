/* SPDX-License-Identifier: MIT
 *
 * Functions of libc's whose own blocks are for their caller to free. Nearly all that libc allocates is its own, and outlives
 * a task; these blocks are the task's, as if it had made them itself. Two kinds: functions that call malloc themselves, and
 * for nothing else, are told by the address that calls; the others have overrides (override_handed_over.c), which put
 * the task's block in the place of libc's. Any thread. */
#ifndef STI_ALLOC_BASE_HANDED_OVER_H
#define STI_ALLOC_BASE_HANDED_OVER_H

#include <stdbool.h>

/* Is it in one of the former? Of an address in libc. Cold. */
bool sti_handed_over(const void *caller);

/* The thread is in a tsearch that somebody else than libc has called, which has trees of its own. */
extern _Thread_local bool sti_handed_over_search __attribute__((visibility("hidden")));

/* The latter's: is the thread in a scope whose block it should be; and the task's copy of libc's block, which is freed, or the
 * same block where the system has no memory. In scopes only, and masked, so that no interrupt comes between. */
bool sti_handed_over_is_wanted(void);
void *sti_handed_over_adopt(void *block, const void *caller);

#endif
