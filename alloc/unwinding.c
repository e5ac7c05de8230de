/* SPDX-License-Identifier: MIT
 *
 * The forced unwind; see unwinding.h. Thread of the scope only.
 *
 * The unwinder asks stop before it asks a frame's own language what to do with it. So here is decided who is passed, and
 * no language ever gets to decide that the process must end.
 *
 * The C++ runtime's record of the thread is kept right, which a forced unwind by itself does not do, as it was made for
 * threads that end with it. A catch (...) block takes the exception only when nothing else is caught: what was caught
 * before the scope is set aside meanwhile. And std::uncaught_exceptions() is one more than before in all that runs, so
 * that destructors which ask it know that they are being unwound; throw; alone would raise it at each block. */
#include "unwinding.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "caller.h"
#include "cxx.h"
#include "interrupt.h"
#include "lsda.h"
#include "mutex.h"
#include "scope_state.h"
#include "thread.h"

struct look {
    uintptr_t scope;
    size_t frames;
    bool open;
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *argument)
{
    struct look *look = argument;
    if (_Unwind_GetCFA(context) > look->scope)
        return _URC_END_OF_STACK;
    look->frames++;
    look->open = sti_lsda_lets_pass(context);
    return look->open ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool sti_unwind_is_open(const struct sti_scope *scope, size_t *frames)
{
    struct look look = { .scope = scope->frame, .open = true };
    _Unwind_Backtrace(look_at_frame, &look);
    *frames = look.frames;
    return look.open;
}

struct search {
    uintptr_t scope;
    bool ends;
};

static _Unwind_Reason_Code look_for_handler(struct _Unwind_Context *context, void *argument)
{
    struct search *search = argument;
    if (_Unwind_GetCFA(context) > search->scope)
        return _URC_END_OF_STACK;
    enum sti_lsda_answer answer = sti_lsda_answer(context);
    search->ends = answer == STI_LSDA_ENDS;
    return answer == STI_LSDA_PASSES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool sti_unwind_throwing_would_end(const struct sti_scope *scope)
{
    struct search search = { .scope = scope->frame };
    _Unwind_Backtrace(look_for_handler, &search);
    return search.ends;
}

_Noreturn static void land(struct sti_scope *scope)
{
    sti_cxx_restore(&scope->cxx);
    scope->unwind.under_way = false;
    sti_interrupt_land(scope);
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *unwound)
{
    (void)version;
    (void)class;
    (void)exception;
    struct sti_scope *scope = unwound;
    uintptr_t frame = _Unwind_GetCFA(context);
    sti_guard_run_below(scope, frame);
    if (frame > scope->frame || (actions & _UA_END_OF_STACK) != 0 || !sti_lsda_lets_pass(context))
        land(scope);
    sti_cxx_set_uncaught(&scope->cxx, 1);
    return _URC_NO_REASON;
}

/* A catch block has ended without throwing again, or by throwing something else. */
static void on_kept(_Unwind_Reason_Code code, struct _Unwind_Exception *exception)
{
    (void)code;
    struct sti_unwind *unwind = (struct sti_unwind *)((char *)exception - offsetof(struct sti_unwind, exception));
    struct sti_scope *scope = (struct sti_scope *)((char *)unwind - offsetof(struct sti_scope, unwind));
    sti_cxx_keep_caught(&scope->cxx);
    unwind->under_way = false;
    scope->masks--;
    atomic_store_explicit(&scope->thread->limit, 0, memory_order_relaxed);
}

static _Unwind_Exception_Class own_class(void)
{
    _Unwind_Exception_Class class;
    memcpy(&class, "STINTC\0", sizeof class);
    return class;
}

bool sti_unwind_is_ours(_Unwind_Exception_Class class)
{
    return class == own_class();
}

_Noreturn void sti_unwind_leave(struct sti_scope *scope)
{
    struct sti_unwind *unwind = &scope->unwind;
    scope->masks++;
    sti_mutex_poison_all(scope);
    unwind->under_way = true;
    sti_cxx_forget_caught();
    unwind->exception = (struct _Unwind_Exception){ .exception_cleanup = on_kept };
    unwind->exception.exception_class = own_class();
    _Unwind_ForcedUnwind(&unwind->exception, stop, scope);
    land(scope);
}

void sti_unwind_give_up(struct sti_scope *scope)
{
    sti_hold_settle(scope);
    if (scope->masks == 1 && !sti_hold_any(&scope->holds) && !sti_cxx_catches_any() &&
        sti_caller_stack_is_safe(scope->frame, 0, &scope->met))
        land(scope);
}

void sti_unwind_instead_of_terminating(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || (caller != NULL && sti_caller_is_protected((uintptr_t)caller)))
        return;
    struct sti_scope *scope = thread->scope;
    /* Without a look at the stack: clang's frame that calls std::terminate has no table. */
    if (sti_interrupt_may_cut(scope))
        land(scope);
}

void sti_unwind_cut(struct sti_scope *scope)
{
    if (scope->on_interrupt == STINT_UNWIND && !scope->unwind.under_way)
        sti_unwind_leave(scope);
    land(scope);
}
