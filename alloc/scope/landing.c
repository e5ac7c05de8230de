/* SPDX-License-Identifier: MIT
 *
 * The landing: where the interrupts of a scope end. The one place that knows what has to survive a longjmp: what is
 * read after it, and may have been written between, lies in the caller's frame and not in this one's; and the
 * floating-point modes (float_modes.h).
 *
 * The landing saves no signal mask (that would cost 130 ns): the one signal handler that an interrupt is delivered from
 * has only its own signal blocked, and the end of its scope lets that through again. Thread of the scope. */
#undef _FORTIFY_SOURCE
#include "landing.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/scope_state.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/left_frames.h"
#include "alloc/interrupt/stack.h"
#include "float_modes.h"

/* Its function has thrown, or has left something open. */
static __attribute__((noinline)) int fail_task(struct sti_scope *scope, struct sti_landed *landed)
{
    if (landed->thrown.exception != NULL)
        return sti_boundary_fail(scope, &landed->thrown, landed->outcome);
    return sti_misuse_fail(scope, landed->code);
}

/* An exception is for whoever joins it. */
static __attribute__((noinline)) int fail_subtask(struct sti_scope *scope, struct sti_landed *landed)
{
    struct sti_thrown *thrown = &landed->thrown;
    if (sti_boundary_was_left(thrown)) {
        thrown->exception = NULL;
        return sti_boundary_end_left(scope);
    }
    if (thrown->exception == NULL)
        return sti_misuse_fail_task(scope, landed->code);
    sti_boundary_note(scope, thrown);
    return landed->code;
}

__attribute__((noinline)) void sti_scope_land(struct sti_scope *scope, stint_fn *fn, void *arg,
                                              struct sti_landed *landed)
{
    const struct float_modes modes = float_modes_now();
    /* The frame that is jumped to: an unwind that went past it would leave it before. */
    scope->frame = (uintptr_t)__builtin_frame_address(0);
    landed->returned = _setjmp(scope->landing) == 0;
    if (landed->returned) {
        landed->code = sti_boundary_run(scope, fn, arg, &landed->value, &landed->thrown);
        if (__builtin_expect(landed->thrown.exception != NULL || sti_misuse_is_left(scope), 0))
            landed->code = scope->is_subtask ? fail_subtask(scope, landed) : fail_task(scope, landed);
    } else {
        landed->value = NULL;
        float_modes_set(&modes);
        sti_stack_settle();
    }
    if (sti_forks_are_left(scope))
        landed->code = sti_forks_give_up(scope);
}
