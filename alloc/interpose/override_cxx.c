/* SPDX-License-Identifier: MIT
 *
 * Overrides of functions of the C++ runtime: the guards of static initialisers, the ends of the process, and two of
 * libstdc++'s about locales. Any thread. */
#include "override_cxx.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/detail/api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/interrupt/cxx.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/unwind.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

#if STI_OVERRIDES

/* --- The guards of static initialisers, in place of the runtime's, so that no task is interrupted in one: a half-run
 * initialiser would keep its guard for ever. Any thread.
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
static bool static_guard_acquire(atomic_int *state)
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
    if (!static_guard_acquire(state_of(guard)))
        return 0;
    if (sti_thread_metered != NULL)
        sti_hold_take(&sti_thread_metered->scope->holds, sti_hold_of_kind(guard, STI_HOLD_STATIC));
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

#endif

/* --- The ends of the process, which an interrupt turns into a jump: unwind.h. Any thread.
 *
 * A noexcept function that an exception comes to, one that nobody catches, and code that has had enough call
 * std::terminate, and that the handler. gcc's code has the handler called directly that was there when the exception
 * was thrown: so ours is there all the time, in the place of the program's. */

STINT_API void std_terminate(void) __asm__("_ZSt9terminatev") __attribute__((alias("sti_terminated")));
STINT_API sti_terminate_fn *set_terminate(sti_terminate_fn *handler) __asm__("_ZSt13set_terminatePFvvE");

static sti_terminate_fn *_Atomic handler_of_runtime; /* that it began with; NULL: no runtime has been found */
static sti_terminate_fn *_Atomic handler_of_program; /* NULL: it has set none */

void sti_terminate_note(sti_terminate_fn *before)
{
    sti_terminate_fn *none = NULL;
    atomic_compare_exchange_strong_explicit(&handler_of_runtime, &none, before, memory_order_relaxed,
                                            memory_order_relaxed);
}

static sti_terminate_fn *handler_now(void)
{
    sti_terminate_fn *handler = atomic_load_explicit(&handler_of_program, memory_order_acquire);
    return handler != NULL ? handler : atomic_load_explicit(&handler_of_runtime, memory_order_relaxed);
}

void sti_terminated(void)
{
    sti_unwind_instead_of_terminating(STI_CALLER());
    if (handler_now() == NULL)
        sti_cxx_look();
    sti_terminate_fn *handler = handler_now();
    if (handler != NULL)
        handler();
    abort();
}

/* std::get_terminate tells of ours: a program that sets it again has the runtime's. */
sti_terminate_fn *set_terminate(sti_terminate_fn *handler)
{
    sti_cxx_look();
    sti_terminate_fn *before = handler_now();
    atomic_store_explicit(&handler_of_program, handler != sti_terminated ? handler : NULL, memory_order_release);
    return before;
}

#if STI_OVERRIDES

/* --- The caches of locales: cxx.h. Any thread. */

typedef void install_fn(void *locale, const void *facet, size_t index);
typedef void end_fn(void *locale);

STINT_API void install_cache(void *locale, const void *facet,
                             size_t index) __asm__("_ZNSt6locale5_Impl16_M_install_cacheEPKNS_5facetEm");
STINT_API void end_locale(void *locale) __asm__("_ZNSt6locale5_ImplD1Ev");

/* It has taken another one if another thread was quicker, and destroyed this. */
void install_cache(void *locale, const void *facet, size_t index)
{
    install_fn *real;
    *(void **)&real = sti_cxx_function("_ZNSt6locale5_Impl16_M_install_cacheEPKNS_5facetEm", STI_CALLER());
    real(locale, facet, index);
    if (sti_thread_metered != NULL && sti_rule_is_on(STI_RULE_CXX_CACHES))
        sti_cxx_cache_note(locale, facet);
}

void end_locale(void *locale)
{
    end_fn *real;
    *(void **)&real = sti_cxx_function("_ZNSt6locale5_ImplD1Ev", STI_CALLER());
    sti_cxx_caches_forget(locale);
    real(locale);
}

#endif
