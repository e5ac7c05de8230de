/* SPDX-License-Identifier: MIT
 *
 * The boundary that no exception passes, and what is read from exceptions that come to it; see boundary.h. Any
 * thread. */
#include "boundary.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stint/exception.h>
#include <string.h>
#include <unwind.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "cxx.h"
#include "guard.h"
#include "hold.h"
#include "hook.h"
#include "interrupt.h"
#include "left_frames.h"
#include "unwind.h"

/* --- The boundary. Any thread.
 *
 * C has no handler for exceptions, so the frame is written by hand, with a personality of its own. The unwinder asks in
 * two phases. In the first, which only looks for a handler, all frames still stand: forks that they made are settled
 * there, since their thieves may be at work with what lies in those frames. The personality says that it handles
 * anything. In the second the frames inside have gone, and it has the unwinder go on at the landing, with the
 * exception.
 *
 * A forced unwind has no first phase. Our own passes. Any other is the end of the thread: pthread_exit, thrd_exit,
 * pthread_cancel. It passes a scope of stint_run, which is rolled back on the way; the guards of frames that were not
 * compiled to be unwound run then, while those are still there. So it does one of a thread that the task has started,
 * which ends as it wanted to. A task of a pool it does not pass, as the thread is the
 * pool's, nor a callback, in whose midst something of ours may be half done: that is as if it had failed. */

#ifndef __x86_64__
#error "the frame of the boundary is written for x86-64"
#endif

_Unwind_Reason_Code sti_boundary_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                             struct _Unwind_Exception *exception, struct _Unwind_Context *context)
    __attribute__((visibility("hidden"), used)); /* by the frame below, which link-time optimisation does not read */

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
        ".size sti_boundary_call, . - sti_boundary_call\n"
        ".p2align 4\n"
        ".globl sti_boundary_jump\n"
        ".hidden sti_boundary_jump\n"
        ".type sti_boundary_jump, @function\n"
        "sti_boundary_jump:\n"
        "    movq 0(%rdi), %rbx\n"
        "    movq 8(%rdi), %rbp\n"
        "    movq 16(%rdi), %r12\n"
        "    movq 24(%rdi), %r13\n"
        "    movq 32(%rdi), %r14\n"
        "    movq 40(%rdi), %r15\n"
        "    movq 48(%rdi), %rsp\n"
        "    jmp sti_boundary_landing\n"
        ".size sti_boundary_jump, . - sti_boundary_jump\n");

struct _Unwind_Exception sti_boundary_left;
_Thread_local struct sti_callback *sti_callback_innermost;

/* A task that is about to fail has its other threads stopped; the exception of a stolen subtask is for whoever joins
 * it. */
static void settle_forks(struct sti_scope *scope)
{
    if (scope == NULL || !sti_forks_are_left(scope))
        return;
    if (!scope->is_subtask)
        sti_interrupt_trip(scope, STINT_REASON_EXCEPTION);
    sti_forks_settle(scope);
}

/* A forced unwind passes. */
static void forget_callback(const struct sti_thrown *thrown)
{
    if (sti_callback_innermost != NULL && sti_callback_innermost->thrown == thrown)
        sti_callback_innermost = sti_callback_innermost->outer;
}

/* Whatever it has left open is ended while its frames are there. */
static void leave_scope(struct sti_scope *scope)
{
    while (scope->thread->scope != NULL && scope->thread->scope != scope)
        sti_frames_abandon_scope(scope->thread->scope);
    sti_forks_settle(scope);
    sti_guard_run_all(scope);
    sti_hook_drop(scope);
}

/* The thread is being ended, and has come to a boundary. True: it ends. */
static bool thread_may_end(struct sti_thrown *thrown)
{
    struct sti_scope *scope = thrown->scope;
    if (scope == NULL || scope->is_subtask || scope->request->detached) {
        sti_misuse_note(scope, scope != NULL ? "called pthread_exit, or was cancelled"
                                             : "a callback called pthread_exit, or was cancelled");
        if (scope != NULL)
            leave_scope(scope);
        return thrown->lets_end;
    }
    leave_scope(scope);
    sti_misuse_note(scope, "its thread ends inside it");
    sti_frames_abandon_scope(scope);
    return true;
}

static _Unwind_Reason_Code land(struct sti_thrown *thrown, struct _Unwind_Exception *exception,
                                struct _Unwind_Context *context)
{
    thrown->exception = exception;
    _Unwind_SetIP(context, (_Unwind_Ptr)(uintptr_t)sti_boundary_landing);
    return _URC_INSTALL_CONTEXT;
}

_Unwind_Reason_Code sti_boundary_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                             struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    struct sti_thrown *thrown = *(struct sti_thrown *const *)_Unwind_GetCFA(context);
    if ((actions & _UA_FORCE_UNWIND) != 0) {
        if (sti_unwind_is_ours(class) || thread_may_end(thrown)) {
            forget_callback(thrown);
            return _URC_CONTINUE_UNWIND;
        }
        sti_thread_note_end(sti_thread_own());
        return land(thrown, &sti_boundary_left, context);
    }
    if ((actions & _UA_SEARCH_PHASE) != 0) {
        settle_forks(thrown->scope);
        return _URC_HANDLER_FOUND;
    }
    if ((actions & _UA_HANDLER_FRAME) == 0)
        return _URC_CONTINUE_UNWIND;
    /* Not handed over in a register: with -static-libgcc the context is another unwinder's, and _Unwind_SetGR works
     * only after its own has been at work. */
    return land(thrown, exception, context);
}

/* --- What has come ------------------------------------------------------------------------------------------------ */

void sti_boundary_note(struct sti_scope *scope, struct sti_thrown *thrown)
{
    sti_cxx_look();
    sti_cxx_extend(&scope->cxx);
    thrown->runtime = sti_cxx_catch(&scope->cxx);
}

int sti_boundary_end_left(struct sti_scope *scope)
{
    sti_cxx_look();
    sti_cxx_extend(&scope->cxx);
    sti_cxx_restore(&scope->cxx);
    sti_hold_end_regions(&scope->holds);
    return sti_forks_give_up(scope);
}

int sti_boundary_fail(struct sti_scope *scope, struct sti_thrown *thrown, stint_outcome *outcome)
{
    if (sti_boundary_was_left(thrown))
        return sti_boundary_end_left(scope);
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stint_exception_report_fn *report_function;
static void *report_argument;

void stint_exceptions_set_report(stint_exception_report_fn *report, void *arg)
{
    sti_plain_mutex_lock(&lock);
    report_function = report;
    report_argument = arg;
    sti_plain_mutex_unlock(&lock);
}

static void report(const char *where, const char *message)
{
    sti_plain_mutex_lock(&lock);
    stint_exception_report_fn *function = report_function;
    void *argument = report_argument;
    sti_plain_mutex_unlock(&lock);
    if (function != NULL)
        function(where, message, argument);
}

static __attribute__((noinline)) void forget(const char *where, struct sti_thrown *thrown,
                                             const struct sti_cxx_state *before)
{
    char message[STINT_MESSAGE_SIZE];
    if (sti_boundary_was_left(thrown)) {
        sti_cxx_restore(before);
        report(where, "left by longjmp or pthread_exit");
        return;
    }
    sti_cxx_catch(before);
    sti_exception_describe(thrown->exception, message, sizeof message);
    sti_boundary_drop(thrown);
    report(where, message);
}

struct registers {
    uintptr_t saved[6]; /* that a function gives back as it found them: rbx, rbp, r12 to r15 */
    uintptr_t stack;
    const struct sti_thrown *wanted;
};

_Noreturn void sti_boundary_jump(const struct registers *registers) __attribute__((visibility("hidden")));

static _Unwind_Reason_Code find_landing(struct _Unwind_Context *context, void *argument)
{
    static const int numbers[] = { 3, 6, 12, 13, 14, 15 };
    struct registers *registers = argument;
    if (_Unwind_GetIP(context) != (_Unwind_Ptr)(uintptr_t)sti_boundary_landing ||
        *(struct sti_thrown *const *)_Unwind_GetCFA(context) != registers->wanted)
        return _URC_NO_REASON;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        registers->saved[i] = _Unwind_GetGR(context, numbers[i]);
    registers->stack = _Unwind_GetCFA(context);
    return _URC_END_OF_STACK;
}

void sti_boundary_cut(const struct sti_callback *callback)
{
    struct registers registers = { .wanted = callback->thrown };
    _Unwind_Backtrace(find_landing, &registers);
    callback->thrown->exception = &sti_boundary_left;
    sti_boundary_jump(&registers);
}

const char sti_boundary_release[] = "release";

void sti_boundary_callback(const char *where, void *a, void *b, void *c, sti_boundary_fn *fn)
{
    struct sti_thrown thrown = { .exception = NULL, .lets_end = where == sti_boundary_release };
    struct sti_cxx_state before;
    sti_cxx_note(&before);
    const struct sti_thread *thread = sti_thread_own();
    struct sti_callback callback = {
        .frame = (uintptr_t)__builtin_frame_address(0),
        .outer = sti_callback_innermost,
        .scope = thread != NULL ? thread->scope : NULL,
        .thrown = &thrown,
    };
    sti_callback_innermost = &callback;
    sti_boundary_call(a, b, c, fn, &thrown);
    if (sti_process_is_partial())
        sti_process_end_thread_of_part();
    sti_callback_innermost = callback.outer;
    if (__builtin_expect(thrown.exception != NULL, 0))
        forget(where, &thrown, &before);
}

/* --- Reading exceptions of libstdc++.
 *
 * In front of the unwinder's header lies libstdc++'s, with the type; behind it the object. One that was rethrown from a
 * std::exception_ptr has a header of its own that points to the first one's object. Whether the type is derived from
 * std::exception is asked of std::exception's type_info, by the virtual function that a catch block would ask: the
 * fifth. The layouts are those of the Itanium C++ ABI and of gcc since version 4. */

#define PRIMARY UINT64_C(0x474e5543432b2b00)   /* "GNUCC++" and 0 */
#define DEPENDENT UINT64_C(0x474e5543432b2b01) /* and 1 */

struct type_info {
    const void *const *functions;
    const char *name; /* mangled; an asterisk in front of it says that its address is compared */
};

/* What lies in front of the unwinder's header. */
struct header {
    const void *type_or_object; /* of a dependent one, the object */
    void *destructor;
    void *unexpected;
    void *terminate;
    void *next;
    int handlers;
    int switch_value;
    const void *action;
    const void *table;
    uintptr_t landing_pad;
    void *adjusted;
};

struct whole {
    struct header header;
    struct _Unwind_Exception unwound;
};

enum { IS_CAUGHT_BY = 4, WHAT = 2 };

typedef bool is_caught_fn(const struct type_info *handler, const struct type_info *thrown, void **object,
                          unsigned outer);
typedef const char *what_fn(const void *object);

/* As in cxx.c: for programs that bring their own runtime. */
extern const struct type_info linked_exception_type __asm__("_ZTISt9exception") __attribute__((weak));

struct thrown_object {
    const struct type_info *type; /* NULL: not libstdc++'s */
    void *object;
};

static struct thrown_object object_of(const struct _Unwind_Exception *exception)
{
    const struct whole *whole = (const struct whole *)((const char *)exception - offsetof(struct whole, unwound));
    struct thrown_object thrown = { .type = NULL };
    if (exception->exception_class == PRIMARY) {
        thrown.type = whole->header.type_or_object;
        thrown.object = (void *)(uintptr_t)(exception + 1);
    } else if (exception->exception_class == DEPENDENT) {
        const struct whole *primary = (const struct whole *)whole->header.type_or_object - 1;
        thrown.type = primary->header.type_or_object;
        thrown.object = (void *)(uintptr_t)whole->header.type_or_object;
    }
    return thrown;
}

static const char *what_of(struct thrown_object thrown)
{
    const struct type_info *handler = &linked_exception_type;
    if (handler == NULL)
        handler = sti_cxx_function("_ZTISt9exception", thrown.type);
    if (handler == NULL)
        return NULL;
    is_caught_fn *is_caught;
    memcpy(&is_caught, &handler->functions[IS_CAUGHT_BY], sizeof is_caught);
    if (!is_caught(handler, thrown.type, &thrown.object, 1))
        return NULL;
    what_fn *what;
    memcpy(&what, &(*(const void *const *const *)thrown.object)[WHAT], sizeof what);
    return what(thrown.object);
}

int sti_exception_describe(const struct _Unwind_Exception *exception, char *text, size_t size)
{
    struct thrown_object thrown = object_of(exception);
    const char *name = thrown.type != NULL ? thrown.type->name + (thrown.type->name[0] == '*') : "";
    if (text != NULL) {
        const char *what = thrown.type != NULL ? what_of(thrown) : NULL;
        if (what != NULL)
            snprintf(text, size, "%s", what);
        else if (thrown.type != NULL)
            snprintf(text, size, "an exception of type %s", name);
        else
            snprintf(text, size, "an exception that is not of this C++ runtime");
    }
    bool no_memory = strcmp(name, "St9bad_alloc") == 0 || strcmp(name, "St20bad_array_new_length") == 0;
    return no_memory ? ENOMEM : -1;
}
