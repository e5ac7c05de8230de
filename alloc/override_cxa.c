/* SPDX-License-Identifier: MIT
 *
 * Overrides of the C++ runtime's guards of static initialisers and of its catch blocks, so that no task is interrupted
 * inside one: a half-run initialiser would keep its guard for ever, and a caught exception stays on a list of the
 * thread's until its block ends. And of the ways in which compiled code ends the process, so that an unwind can turn into
 * a jump instead: unwinding.h. Any thread. The runtime's own functions are there whenever these are called. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/api.h>

#include "caller.h"
#include "cxx.h"
#include "scope_state.h"
#include "thread.h"

STINT_API int __cxa_guard_acquire(int64_t *guard);
STINT_API void __cxa_guard_release(int64_t *guard);
STINT_API void __cxa_guard_abort(int64_t *guard);
STINT_API void *__cxa_begin_catch(void *exception);
STINT_API void __cxa_end_catch(void);
STINT_API _Noreturn void __cxa_call_terminate(void *exception);
STINT_API _Noreturn void std_terminate(void) __asm__("_ZSt9terminatev");

static const int any_catch_block;

/* Two threads at once find the same. */
#define PLAIN(type, name)                                                                                              \
    static type _Atomic found;                                                                                         \
    type plain = atomic_load_explicit(&found, memory_order_relaxed);                                                   \
    if (__builtin_expect(plain == NULL, 0)) {                                                                          \
        *(void **)&plain = sti_cxx_function(name);                                                                     \
        atomic_store_explicit(&found, plain, memory_order_relaxed);                                                    \
    }

typedef int acquire_fn(int64_t *);
typedef void release_fn(int64_t *);
typedef void *begin_fn(void *);
typedef void end_fn(void);
typedef void call_terminate_fn(void *);

static inline void take(const void *object, enum sti_hold_kind kind)
{
    if (sti_thread_metered != NULL)
        sti_scope_take_hold(sti_thread_metered->scope, sti_hold_of_kind(object, kind));
}

static inline void let_go(const void *object, enum sti_hold_kind kind)
{
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, sti_hold_of_kind(object, kind));
}

int __cxa_guard_acquire(int64_t *guard)
{
    PLAIN(acquire_fn *, "__cxa_guard_acquire")
    int mine = plain(guard);
    if (mine)
        take(guard, STI_HOLD_STATIC);
    return mine;
}

void __cxa_guard_release(int64_t *guard)
{
    PLAIN(release_fn *, "__cxa_guard_release")
    plain(guard);
    let_go(guard, STI_HOLD_STATIC);
}

void __cxa_guard_abort(int64_t *guard)
{
    PLAIN(release_fn *, "__cxa_guard_abort")
    plain(guard);
    let_go(guard, STI_HOLD_STATIC);
}

void *__cxa_begin_catch(void *exception)
{
    PLAIN(begin_fn *, "__cxa_begin_catch")
    take(&any_catch_block, STI_HOLD_CATCH);
    return plain(exception);
}

void __cxa_end_catch(void)
{
    PLAIN(end_fn *, "__cxa_end_catch")
    let_go(&any_catch_block, STI_HOLD_CATCH);
    plain();
}

void std_terminate(void)
{
    sti_unwind_instead_of_terminating(STI_CALLER());
    PLAIN(end_fn *, "_ZSt9terminatev")
    plain();
    __builtin_unreachable();
}

/* gcc's from version 13 on, for a noexcept function that has been inlined. */
void __cxa_call_terminate(void *exception)
{
    sti_unwind_instead_of_terminating(STI_CALLER());
    PLAIN(call_terminate_fn *, "__cxa_call_terminate")
    if (plain == NULL)
        std_terminate();
    plain(exception);
    __builtin_unreachable();
}
