/* SPDX-License-Identifier: MIT
 *
 * The guards of C++'s static initialisers, in place of the runtime's, so that no task is interrupted in one: a half-run
 * initialiser would keep its guard for ever. And overrides of the ways in which compiled code ends the process, so that
 * an unwind can turn into a jump instead: unwinding.h. Any thread.
 *
 * The guards are made here and not handed on: a program linked with -static-libstdc++ finds these, and then has no others.
 * A guard is libstdc++'s, bit by bit, so that a module which brings its own functions may share one: the first byte is set
 * when the initialiser has run, which compiled code looks at; the next two say that it runs, and that somebody waits.
 *
 *   0 -> PENDING (acquire) -> DONE (release) | 0 (abort); who finds PENDING sets WAITING too and sleeps on the word. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caller.h"
#include "cxx.h"
#include "scope_state.h"
#include "thread.h"

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
static void leave(int64_t *guard, int end)
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
    leave(guard, DONE);
}

void __cxa_guard_abort(int64_t *guard)
{
    leave(guard, 0);
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
