/* SPDX-License-Identifier: MIT
 *
 * A scope from its opening to its outcome. Calling thread only, unless a function says otherwise. */
#ifndef STI_ALLOC_SCOPE_SCOPE_H
#define STI_ALLOC_SCOPE_SCOPE_H

#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>
#include <string.h>

#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"

/* --- The scope: the boundary a task runs in. Here are its state, which the meter, the interrupts and the undo log share,
 * and the two ways to run one: stint_run (public, nested) and sti_scope_run (for the executor). A scope lives on the
 * stack of the thread that opened it and is touched by that thread only. */

struct sti_scope;

/* Whether these options are ones that stint_run and stint_submit accept. NULL is. */
static inline bool sti_options_valid(const stint_options *options)
{
    return options == NULL || ((unsigned)options->on_interrupt <= (unsigned)STINT_UNWIND &&
                               (unsigned)options->priority <= (unsigned)STINT_PRIORITY_LOW &&
                               sti_link_flags_valid(options->flags & ~STINT_UNTIMED));
}

/* Run the request here and fill *outcome. 0, or before fn was called ENOMEM, ENOTSUP (sti_backend_check), or for a preemptible task EAGAIN, or EBUSY: the account
 * has its maximum of running tasks. A deadline that passed before the start, or
 * a token already set, gives its outcome without fn being called. */
int sti_scope_run(const struct sti_scope_request *request, stint_outcome *outcome);

/* Whether a scope that the calling thread is in, at any depth, has this account or one below it. */
bool sti_scope_is_in_account(const stint_account *account);

/* The message is worth a copy only where there is one. Without it there is nothing of a stack's past in it either, which
 * would be a root of some task's heap where the caller keeps it. */
static inline void sti_outcome_copy(stint_outcome *to, const stint_outcome *from)
{
    memcpy(to, from, offsetof(stint_outcome, message));
    memset(to->message, 0, sizeof to->message);
    if (__builtin_expect(from->reason == STINT_REASON_EXCEPTION, 0))
        memcpy(to->message, from->message, sizeof to->message);
}

/* The outcome of a task that is stopped for this reason before it starts. */
stint_outcome sti_outcome_unstarted(stint_reason reason, uint64_t queued_ns);

/* --- The thread's floating-point modes: rounding, traps, denormals. They have to survive a call, but longjmp leaves them as
 * it finds them: as the interrupted code had set them, or in a signal handler as the system sets them. Any thread. */

struct sti_float_modes {
    uint32_t sse;
    uint16_t x87;
};

static inline struct sti_float_modes sti_float_modes_now(void)
{
    struct sti_float_modes modes;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(modes.sse), "=m"(modes.x87));
    return modes;
}

static inline void sti_float_modes_set(const struct sti_float_modes *modes)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(modes->sse), "m"(modes->x87));
}

#endif
