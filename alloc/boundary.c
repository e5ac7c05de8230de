/* SPDX-License-Identifier: MIT
 *
 * The boundary; see boundary.h. Any thread.
 *
 * C has no handler for exceptions, so the frame is written by hand, with a personality of its own. The unwinder asks in
 * two phases. In the first, which only looks for a handler, all frames still stand: forks that they made are settled
 * there, since their thieves may be at work with what lies in those frames. The personality says that it handles
 * anything. In the second the frames inside have gone, and it has the unwinder go on at the landing, with the exception.
 * A forced unwind (pthread_exit, our own) has no first phase, and passes. */
#include "boundary.h"

#include <stdbool.h>
#include <stint/exception.h>

#include "cxx.h"
#include "exception.h"
#include "forks.h"
#include "interrupt.h"
#include "plain_lock.h"
#include "quiet.h"
#include "scope_state.h"

#ifndef __x86_64__
#error "the frame of the boundary is written for x86-64"
#endif

extern const char sti_boundary_landing[] __attribute__((visibility("hidden")));

_Unwind_Reason_Code sti_boundary_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                             struct _Unwind_Exception *exception, struct _Unwind_Context *context)
    __attribute__((visibility("hidden")));

/* thrown is kept where the stack pointer is during the call: there the personality finds it. */
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden sti_boundary_call\n"
        ".globl sti_boundary_call\n"
        ".type sti_boundary_call, @function\n"
        "sti_boundary_call:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, sti_boundary_personality\n"
        "    pushq %r8\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call *%rcx\n"
        "    .hidden sti_boundary_landing\n"
        "    .globl sti_boundary_landing\n"
        "sti_boundary_landing:\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size sti_boundary_call, . - sti_boundary_call\n");

/* A task that is about to fail has its other threads stopped; the exception of a branch is for whoever joins it. */
static void settle_forks(struct sti_scope *scope)
{
    if (scope == NULL || !sti_forks_are_left(scope))
        return;
    if (!scope->is_branch)
        sti_interrupt_trip(scope, STINT_REASON_EXCEPTION);
    sti_forks_settle(scope);
}

_Unwind_Reason_Code sti_boundary_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                             struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    struct sti_thrown *thrown = *(struct sti_thrown *const *)_Unwind_GetCFA(context);
    if ((actions & _UA_SEARCH_PHASE) != 0) {
        settle_forks(thrown->scope);
        return _URC_HANDLER_FOUND;
    }
    if ((actions & _UA_HANDLER_FRAME) == 0)
        return _URC_CONTINUE_UNWIND;
    /* Not handed over in a register: with -static-libgcc the context is another unwinder's, and _Unwind_SetGR works only
     * after its own has been at work. */
    thrown->exception = exception;
    _Unwind_SetIP(context, (_Unwind_Ptr)(uintptr_t)sti_boundary_landing);
    return _URC_INSTALL_CONTEXT;
}

void sti_boundary_note(struct sti_scope *scope, struct sti_thrown *thrown)
{
    sti_cxx_look();
    sti_cxx_extend(&scope->cxx);
    thrown->runtime = sti_cxx_catch(&scope->cxx);
}

int sti_boundary_fail(struct sti_scope *scope, struct sti_thrown *thrown, stint_outcome *outcome)
{
    sti_boundary_note(scope, thrown);
    sti_interrupt_trip(scope, STINT_REASON_EXCEPTION);
    scope->masks++;
    char *message = scope->tripped == STINT_REASON_EXCEPTION ? outcome->message : NULL;
    int error = sti_exception_describe(thrown->exception, message, sizeof outcome->message);
    sti_boundary_drop(thrown);
    scope->masks--;
    return error;
}

void sti_boundary_rethrow(const struct sti_thrown *thrown)
{
    sti_cxx_throw(thrown->runtime);
    _Unwind_RaiseException(thrown->exception);
}

void sti_boundary_drop(struct sti_thrown *thrown)
{
    _Unwind_DeleteException(thrown->exception);
    thrown->exception = NULL;
}

/* --- Callbacks ---------------------------------------------------------------------------------------------------- */

static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT;
static stint_exception_report *report_function;
static void *report_argument;

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

void stint_set_exception_report(stint_exception_report *report, void *arg)
{
    sti_plain_mutex_lock(&lock.mutex);
    report_function = report;
    report_argument = arg;
    sti_plain_mutex_unlock(&lock.mutex);
}

static void report(const char *where, const char *message)
{
    sti_plain_mutex_lock(&lock.mutex);
    stint_exception_report *function = report_function;
    void *argument = report_argument;
    sti_plain_mutex_unlock(&lock.mutex);
    if (function != NULL)
        function(where, message, argument);
}

static __attribute__((noinline)) void forget(const char *where, struct sti_thrown *thrown,
                                             const struct sti_cxx_state *before)
{
    char message[STINT_MESSAGE_SIZE];
    sti_cxx_catch(before);
    sti_exception_describe(thrown->exception, message, sizeof message);
    sti_boundary_drop(thrown);
    report(where, message);
}

void sti_boundary_callback(const char *where, void *a, void *b, void *c, sti_boundary_fn *fn)
{
    struct sti_thrown thrown = { .exception = NULL };
    struct sti_cxx_state before;
    sti_cxx_note(&before);
    sti_boundary_call(a, b, c, fn, &thrown);
    if (__builtin_expect(thrown.exception != NULL, 0))
        forget(where, &thrown, &before);
}
