/* SPDX-License-Identifier: MIT
 *
 * Frames that are left without a word to them: by a jump of the program's, or with forks that they made; see
 * abandoned_frames.h. Thread of the scope only. */
#include "abandoned_frames.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "boundary.h"
#include "cxx.h"
#include "forks.h"
#include "guard.h"
#include "hold.h"
#include "hook.h"
#include "interrupt.h"
#include "way.h"

/* --- The way of a jump, and the ending of what it passes. Calling thread.
 *
 * From inside outwards: a scope that is passed first has all ended that lies in it. A task of a pool has the pool's
 * frames below it, which nobody may jump over: so it fails where it was begun. Below a callback lie frames of this
 * library that are in the midst of something, and there is nothing that could fail: a jump out of one ends the
 * program. */

/* Something lies below the target, be it on this stack or not. */
static bool may_pass_anything(uintptr_t target)
{
    const struct sti_callback *callback = sti_callback_innermost;
    const struct sti_scope *scope = sti_scope_innermost();
    if (callback != NULL && (uintptr_t)callback < target)
        return true;
    return scope != NULL && (scope->frame < target || (scope->guards != NULL && (uintptr_t)scope->guards < target) ||
                             (scope->hooks != NULL && (uintptr_t)scope->hooks < target) || sti_forks_are_left(scope) ||
                             sti_hold_any(&scope->holds));
}

static void leave_frames(struct sti_scope *scope, const struct sti_way *way)
{
    sti_forks_settle(scope, way);
    sti_guard_leave(scope, way);
    sti_hook_leave(scope, way);
    sti_hold_leave(&scope->holds, way);
}

_Noreturn static void way_fail_scope(struct sti_scope *scope, const sigset_t *mask)
{
    sti_forks_give_up(scope);
    sti_cxx_restore(&scope->cxx);
    sti_hold_end_regions(&scope->holds);
    sti_interrupt_jump(scope, mask);
}

__attribute__((noinline)) static void way_leave_frames(const struct sti_way *way, const sigset_t *mask)
{
    struct sti_scope *scope;
    if (sti_callback_innermost != NULL && sti_way_passes(way, (uintptr_t)sti_callback_innermost))
        sti_boundary_end_program(sti_scope_innermost(), "a callback was left by longjmp");
    while ((scope = sti_scope_innermost()) != NULL && sti_way_passes(way, scope->frame)) {
        sti_misuse_note(scope, "its scope was left by longjmp");
        if (sti_frames_are_of_a_pool(scope))
            way_fail_scope(scope, mask);
        sti_hooks.abandon_scope(scope);
    }
    if (sti_scope_innermost() != NULL)
        leave_frames(sti_scope_innermost(), way);
}

void sti_way_leave(uintptr_t target, const sigset_t *mask)
{
    struct sti_way way;
    if (may_pass_anything(target) && sti_way_find(&way, target))
        way_leave_frames(&way, mask);
}

int sti_forks_give_up(struct sti_scope *scope)
{
    struct sti_scope *task = scope;
    if (sti_forks_are_left(scope))
        sti_misuse_note(scope, "returned without joining a fork");
    while (task->is_inner_subtask)
        task = task->outer;
    sti_interrupt_trip(task, STINT_REASON_FAILED);
    sti_forks_settle(scope, NULL);
    return EINVAL;
}

int sti_misuse_fail_task(struct sti_scope *branch, int code)
{
    sti_forks_give_up(branch);
    return sti_misuse_fail(branch, code);
}
