/* SPDX-License-Identifier: MIT
 *
 * A scope from its opening to its outcome. Calling thread only, unless a function says otherwise. */
#ifndef STI_ALLOC_SCOPE_SCOPE_H
#define STI_ALLOC_SCOPE_SCOPE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>
#include <string.h>

#include "alloc/platform/libc.h"
#include "alloc/platform/link.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/sized.h"
#include "context.h"

/* --- The scope: the boundary a task runs in. Here are the two ways to run one (its state, which the
 * meter, the interrupts and the undo log share, is in scope_state.h): stint_run (public, nested) and sti_scope_run (for
 * the executor). A scope lives on the stack of the thread that opened it and is touched by that thread only. */

struct sti_scope;

/* They have something other than 0 where only a few values are known: is it one of those? 0 or EINVAL. Any thread. */
int sti_options_look(const stint_options *options);

/* Not 0 where it has a rate. One of less than 2^-1042 is none: such a task would never be sampled. */
static inline unsigned sti_options_rate(const stint_options *options)
{
    uint64_t bits;
    memcpy(&bits, &options->sample_rate, sizeof bits);
    return (unsigned)(bits >> 32);
}

static inline int sti_options_check(const stint_options *options)
{
    if (options == NULL)
        return 0;
    unsigned set = (unsigned)options->on_interrupt | (unsigned)options->priority | (unsigned)options->report |
                   sti_options_rate(options) | options->warn | (options->flags & STINT_COMMIT);
    if (__builtin_expect(set != 0, 0)) {
        int error = sti_options_look(options);
        if (error != 0)
            return error;
    }
    return sti_link_flags_valid(options->flags & ~(STINT_UNTIMED | STINT_COMMIT)) ? 0 : EINVAL;
}

/* Take the options that a program gives; NULL is none. Those of another version's size are copied into *room, and
 * *options points there then. 0, or what stint_run returns for such options: EINVAL, E2BIG, ENOTSUP. Any thread. */
static inline __attribute__((always_inline)) int sti_options_take(const stint_options **options, stint_options *room)
{
    if (__builtin_expect(*options != NULL && (*options)->size != sizeof **options, 0)) {
        int error = sti_sized_in(room, sizeof *room, STI_SIZED_UP_TO(stint_options, data), *options);
        if (error != 0)
            return error;
        *options = room;
    }
    int error = sti_options_check(*options);
    if (error != 0)
        return error;
    sti_libc_look(); /* what has been loaded before the task may be left */
    return sti_link_allows(*options != NULL ? (*options)->flags : 0) ? 0 : ENOTSUP;
}

/* Run the request here and fill *outcome. 0, or before fn was called ENOMEM, ENOTSUP (sti_backend_check), or for a
 * preemptible task EAGAIN, or EBUSY: the account has its maximum of running tasks. A deadline that passed before the
 * start, or a token already set, gives its outcome without fn being called. */
int sti_scope_run(const struct sti_scope_request *request, stint_outcome *outcome);

/* --- What a task's own scope and a stolen subtask's have in common: how they begin, resume and end. Thread of the
 * scope. */

/* What every scope begins with; request has to stay while it is open. */
void sti_scope_init(struct sti_scope *scope, struct sti_thread *thread, const struct sti_scope_request *request);

/* Have a preemptible one watched. 0 or an errno value. */
int sti_scope_begin_preemption(struct sti_scope *scope);

/* The scope's code has ended, however it did: the thread is in no scope, and nothing watches or preempts it. */
void sti_scope_leave(struct sti_scope *scope);

/* What it has left in the thread and in libc, and has mapped, is kept: the scope's around it, if there is one. */
void sti_scope_commit_state(struct sti_thread *thread, struct sti_scope *scope);

/* And what it was made of has: the scope below is the thread's again. */
void sti_scope_return(struct sti_thread *thread, struct sti_scope *scope);

/* Roll the thread's innermost scope back, whose frames are about to be left. Nobody hears of its outcome. */
void sti_scope_abandon(struct sti_scope *scope);

#endif
