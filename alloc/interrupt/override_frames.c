/* SPDX-License-Identifier: MIT
 *
 * Overrides of what leaves frames (longjmp, setcontext) and of what registers them to be left (the C++ runtime's, and
 * the cancellation cleanups of libc). Any thread. */
#undef _FORTIFY_SOURCE

#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/api.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/base/assumption.h"
#include "alloc/base/caller.h"
#include "alloc/base/machine.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "cxx.h"
#include "hold.h"
#include "left_frames.h"
#include "unwind.h"

/* --- Overrides of the ways to leave frames without a word to them: longjmp under all of its names, and setcontext.
 * What this library keeps of those frames is ended first (left_frames.h). swapcontext leaves none, as it can be come
 * back from. Any thread. */

typedef struct __jmp_buf_tag landing;

STINT_API _Noreturn void longjmp(landing to[1], int value);
STINT_API _Noreturn void _longjmp(landing to[1], int value);
STINT_API _Noreturn void siglongjmp(landing to[1], int value);
STINT_API _Noreturn void __longjmp_chk(landing to[1], int value);
STINT_API int setcontext(const ucontext_t *context);

static void leave(const landing *to)
{
    const sigset_t *mask = to->__mask_was_saved != 0 ? (const sigset_t *)(const void *)&to->__saved_mask : NULL;
    if (!sti_assumption_fails(STI_ASSUMED_JUMPS))
        sti_way_leave(sti_landing_stack_pointer(to), mask);
}

_Noreturn void longjmp(landing to[1], int value)
{
    leave(to);
    sti_plain_longjmp(to, value);
}

_Noreturn void _longjmp(landing to[1], int value)
{
    leave(to);
    sti_plain_longjmp(to, value);
}

_Noreturn void siglongjmp(landing to[1], int value)
{
    leave(to);
    sti_plain_longjmp(to, value);
}

/* Ends the process where the frame is not there any more. */
_Noreturn void __longjmp_chk(landing to[1], int value)
{
    STI_LIBC_FUNCTION(__longjmp_chk)
    leave(to);
    plain(to, value);
    __builtin_unreachable();
}

int setcontext(const ucontext_t *context)
{
    STI_LIBC_FUNCTION(setcontext)
    sti_way_leave(sti_registers_of(context).sp, &context->uc_sigmask);
    return plain(context);
}

/* --- The guards of C++'s static initialisers, in place of the runtime's, so that no task is interrupted in one: a
 * half-run initialiser would keep its guard for ever. And overrides of the ways in which compiled code ends the
 * process, so that an unwind can turn into a jump instead: unwind.h. Any thread.
 *
 * The guards are made here and not handed on: a program linked with -static-libstdc++ finds these, and then has no
 * others. A guard is libstdc++'s, bit by bit, so that a module which brings its own functions may share one: the first
 * byte is set when the initialiser has run, which compiled code looks at; the next two say that it runs, and that
 * somebody waits.
 *
 *   0 -> PENDING (acquire) -> DONE (release) | 0 (abort); who finds PENDING sets WAITING too and sleeps on the word. */

STINT_API int __cxa_guard_acquire(int64_t *guard);
STINT_API void __cxa_guard_release(int64_t *guard);
STINT_API void __cxa_guard_abort(int64_t *guard);
STINT_API _Noreturn void __cxa_call_terminate(void *exception);
STINT_API _Noreturn void std_terminate(void) __asm__("_ZSt9terminatev");

enum {
    DONE = 1,
    PENDING = 1 << 8,
    WAITING = 1 << 16,
};

static atomic_int *state_of(int64_t *guard)
{
    return (atomic_int *)(void *)guard;
}

/* acquire: what the initialiser wrote is seen with DONE. */
static bool acquire(atomic_int *state)
{
    for (;;) {
        int seen = 0;
        if (atomic_compare_exchange_strong_explicit(state, &seen, PENDING, memory_order_acquire, memory_order_acquire))
            return true;
        if (seen == DONE)
            return false;
        if (seen == PENDING && !atomic_compare_exchange_strong_explicit(state, &seen, PENDING | WAITING,
                                                                        memory_order_acquire, memory_order_acquire))
            continue;
        syscall(SYS_futex, state, FUTEX_WAIT, PENDING | WAITING, NULL);
    }
}

/* release: who sees DONE sees what the initialiser wrote. */
static void leave_guard(int64_t *guard, int end)
{
    atomic_int *state = state_of(guard);
    if ((atomic_exchange_explicit(state, end, memory_order_acq_rel) & WAITING) != 0)
        syscall(SYS_futex, state, FUTEX_WAKE, INT32_MAX);
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, sti_hold_of_kind(guard, STI_HOLD_STATIC));
}

int __cxa_guard_acquire(int64_t *guard)
{
    if (!acquire(state_of(guard)))
        return 0;
    if (sti_thread_metered != NULL)
        sti_scope_take_hold(sti_thread_metered->scope, sti_hold_of_kind(guard, STI_HOLD_STATIC));
    return 1;
}

void __cxa_guard_release(int64_t *guard)
{
    leave_guard(guard, DONE);
}

void __cxa_guard_abort(int64_t *guard)
{
    leave_guard(guard, 0);
}

/* The runtime's, or what it comes to where there is none. */
static _Noreturn void terminate(const void *caller)
{
    void (*plain)(void);
    *(void **)&plain = sti_cxx_function("_ZSt9terminatev", caller);
    if (plain != NULL)
        plain();
    abort();
}

void std_terminate(void)
{
    const void *caller = STI_CALLER();
    sti_unwind_instead_of_terminating(caller);
    terminate(caller);
}

/* gcc's from version 13 on, for a noexcept function that has been inlined. */
void __cxa_call_terminate(void *exception)
{
    const void *caller = STI_CALLER();
    sti_unwind_instead_of_terminating(caller);
    void (*plain)(void *);
    *(void **)&plain = sti_cxx_function("__cxa_call_terminate", caller);
    if (plain != NULL)
        plain(exception);
    terminate(caller);
}

/* --- Overrides of what pthread_cleanup_push and _pop call in C code without unwind tables. Such a region has something
 * to release, and libc keeps a pointer to its frame until it ends; so it is held like a lock. Where the compiler turns
 * the region into a cleanup of its frame, nothing is called and nothing needs to be. Any thread. */

STINT_API void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
STINT_API void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);

void __pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
    STI_LIBC_FUNCTION(__pthread_register_cancel)
    plain(buffer);
    if (sti_thread_metered != NULL && sti_rule_is_on(STI_RULE_CLEANUP))
        sti_scope_take_hold(sti_thread_metered->scope, buffer);
}

void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    STI_LIBC_FUNCTION(__pthread_unregister_cancel)
    plain(buffer);
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, buffer);
}
