/* SPDX-License-Identifier: MIT
 *
 * Leaving frames by unwinding them; see unwind.h. Thread of the scope only. */
#include "unwind.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "alloc/platform/callstack.h"
#include "alloc/platform/module.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "boundary.h"
#include "cxx.h"
#include "guard.h"
#include "hold.h"
#include "interrupt.h"
#include "safe.h"

/* --- The forced unwind.
 *
 * The unwinder asks stop before it asks a frame's own language what to do with it. Which frames let an exception
 * through is for the language to say: where one does not, C++ calls std::terminate, and that turns the unwind into a
 * jump (override_cxx.c). A language whose last word nobody hears here is not asked: in front of its frame the unwind
 * turns into a jump, too.
 *
 * The C++ runtime's record of the thread is kept right, which a forced unwind by itself does not do, as it was made for
 * threads that end with it. A catch (...) block takes the exception only when nothing else is caught: what was caught
 * before the scope is set aside meanwhile. And std::uncaught_exceptions() is one more than before in all that runs, so
 * that destructors which ask it know that they are being unwound; throw; alone would raise it at each block. --- */

_Noreturn static void unwind_jump(struct sti_scope *scope)
{
    sti_cxx_restore(&scope->cxx);
    scope->unwind.under_way = false;
    sti_interrupt_jump(scope, NULL);
}

/* The scope's own boundary is not: it would take this for the end of the thread. */
static bool is_passed(struct _Unwind_Context *context)
{
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    return _Unwind_GetLanguageSpecificData(context) == 0 ||
           (!sti_boundary_has((const void *)address) &&
            sti_cxx_may_be_asked(sti_frame_personality(address - (before_instruction ? 0 : 1))));
}

static _Unwind_Reason_Code unwind_stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                       struct _Unwind_Exception *exception, struct _Unwind_Context *context,
                                       void *unwound)
{
    (void)version;
    (void)class;
    (void)exception;
    struct sti_scope *scope = unwound;
    uintptr_t frame = _Unwind_GetCFA(context);
    sti_guard_run_below(scope, frame);
    if (frame > scope->frame || (actions & _UA_END_OF_STACK) != 0 || !is_passed(context))
        unwind_jump(scope);
    sti_cxx_set_uncaught(&scope->cxx, 1);
    return _URC_NO_REASON;
}

/* A catch block has ended without throwing again, or by throwing something else. */
static void unwind_caught(_Unwind_Reason_Code code, struct _Unwind_Exception *exception)
{
    (void)code;
    struct sti_unwind *unwind = (struct sti_unwind *)((char *)exception - offsetof(struct sti_unwind, exception));
    struct sti_scope *scope = (struct sti_scope *)((char *)unwind - offsetof(struct sti_scope, unwind));
    sti_cxx_keep_caught(&scope->cxx);
    unwind->under_way = false;
    scope->masks--;
    atomic_store_explicit(&scope->thread->limit, 0, memory_order_relaxed);
}

_Noreturn void sti_unwind_leave(struct sti_scope *scope)
{
    struct sti_unwind *unwind = &scope->unwind;
    scope->masks++;
    sti_mutex_poison_all(scope);
    unwind->under_way = true;
    sti_cxx_forget_caught();
    unwind->exception = (struct _Unwind_Exception){ .exception_cleanup = unwind_caught };
    memcpy(&unwind->exception.exception_class, "STINTC\0", sizeof unwind->exception.exception_class);
    _Unwind_ForcedUnwind(&unwind->exception, unwind_stop, scope);
    unwind_jump(scope);
}

void sti_unwind_give_up(struct sti_scope *scope)
{
    sti_hold_settle(scope);
    if (scope->masks == 1 && !sti_hold_any(&scope->holds) && !sti_cxx_catches_any() && sti_frames_may_be_left(scope))
        unwind_jump(scope);
}

/* --- Where an unwind may begin. --- */

#define FRAMES_LOOKED_AT 64

/* The walk has come to the call. */
static bool leads_elsewhere(struct sti_walk *walk, const struct link_map *module)
{
    bool goes_on = true;
    for (int i = 0; goes_on && i < FRAMES_LOOKED_AT; i++) {
        uintptr_t instruction = sti_walk_instruction(walk);
        if (sti_module_of((const void *)instruction) != module)
            return true;
        goes_on = sti_frame_personality(instruction) == 0 && sti_walk_out(walk);
    }
    return walk->past_end;
}

bool sti_unwind_may_begin(const struct sti_scope *scope, const void *nothrow_call)
{
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), scope->frame, NULL);
    bool goes_on = true;
    if (nothrow_call == NULL)
        return true;
    while (goes_on && walk.at.ip != (uintptr_t)nothrow_call)
        goes_on = sti_walk_out(&walk);
    return goes_on && leads_elsewhere(&walk, sti_module_of((const char *)nothrow_call - 1));
}

/* --- Where the process would end. --- */

void sti_unwind_note_throw(struct sti_scope *scope)
{
    scope->unwind.throws_past_libc = !sti_frames_may_be_cut(scope);
}

/* From the function that a frame of clang's calls to the handler that it ends in. */
#define FRAMES_OF_RUNTIME 2

/* clang's frame that calls std::terminate is not described. It is the caller of ours, or of that of a runtime that is
 * linked into the program, which calls the handler. */
static bool is_hidden(const struct sti_scope *scope, const void *caller)
{
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), scope->frame, NULL);
    bool goes_on = true;
    while (goes_on && walk.at.ip != (uintptr_t)caller)
        goes_on = sti_walk_out(&walk);
    for (int i = 0; goes_on && i < FRAMES_OF_RUNTIME; i++)
        goes_on = sti_walk_out(&walk);
    return !walk.past_end && sti_frame_rule(sti_walk_instruction(&walk)).kind == STI_FRAME_LAST;
}

/* Such a frame hides what is further out. That is what it was when operator new last threw, unless something else has
 * been thrown since. */
static bool unwind_may_jump(const struct sti_scope *scope, const void *caller)
{
    if (scope->unwind.under_way)
        return true;
    return is_hidden(scope, caller) ? !scope->unwind.throws_past_libc : sti_frames_may_be_cut(scope);
}

_Noreturn static void leave_what_is_caught(struct sti_thread *thread)
{
    struct sti_scope *scope = thread->scope;
    sti_cxx_end_caught(&scope->cxx, scope->unwind.under_way ? &scope->unwind.exception : NULL);
    if (!scope->unwind.under_way)
        sti_interrupt_note_leaving(thread, NULL);
    unwind_jump(scope);
}

void sti_unwind_instead_of_terminating(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && sti_interrupt_may_cut(thread->scope) && unwind_may_jump(thread->scope, caller))
        leave_what_is_caught(thread);
}

void sti_unwind_at_boundary(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && sti_interrupt_is_tripped(thread->scope))
        leave_what_is_caught(thread);
}
