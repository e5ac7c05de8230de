/* SPDX-License-Identifier: MIT
 *
 * Warnings before a limit is passed (stint/observe.h). A scope keeps the places at which each limit's is due, and the
 * limit's own sample points, clocks and watch find them; so nothing is looked at more often for them, and the fast path
 * knows nothing of them. The watch's thread tells the program.
 *
 * A mark is moved to where it is never reached by whoever finds it reached, so each is told once; setting the limits
 * anew sets the marks anew. That of time is found by the scope's thread or by the watch: an exchange decides. */
#ifndef STI_ALLOC_INTERRUPT_WARNING_H
#define STI_ALLOC_INTERRUPT_WARNING_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/observe.h>
#include <stint/pool.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/tally.h"

/* So much of a limit; never: UINT64_MAX where it is 0, or is only measured. */
static inline uint64_t sti_warning_part(uint64_t limit, unsigned percent)
{
    if (limit == 0 || limit == UINT64_MAX)
        return UINT64_MAX;
    return limit / 100 * percent + limit % 100 * percent / 100;
}

/* Somebody's warning is due: it is counted, traced, and told by the watch. warning->name is copied. Where sixteen wait
 * to be told it is only counted. Any thread, also in a sample point in a signal handler. */
void sti_warning_post(const stint_warning *warning);

/* In a child of a wall: this is told in the place of the program. */
void sti_warning_divert(void (*post)(const stint_warning *warning));

/* By the watch, under its lock: one that waits to be told. False: none does. */
struct sti_waiting_warning {
    stint_warning warning;
    char name[STINT_NAME_SIZE];
};
bool sti_warning_take(struct sti_waiting_warning *taken);
void sti_warning_notify(void *taken);

/* A scope with options.warn goes by these limits of bytes, of time, or both, from now on. Its thread. */
void sti_warning_mark_bytes(struct sti_scope *scope, const stint_budget *budget);
void sti_warning_mark_time(struct sti_scope *scope, const stint_budget *budget);

/* Of a scope with options.warn: it has been charged so much, holds so much, has used so much processor time. Its
 * thread. */
void sti_warning_look_at_allocated(struct sti_scope *scope, uint64_t allocated);
void sti_warning_look_at_held(struct sti_scope *scope, uint64_t held);
void sti_warning_look_at_cpu(struct sti_scope *scope, uint64_t used);

/* And it is so late. Also by the watch. */
void sti_warning_look_at_time(struct sti_scope *scope, uint64_t now);

/* How many there have been, by reason. */
extern sti_counter sti_warnings[STI_REASONS] __attribute__((visibility("hidden")));

#endif
