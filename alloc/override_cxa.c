/* SPDX-License-Identifier: MIT
 *
 * Overrides of the C++ runtime's guards of static initialisers and of its catch blocks, so that no task is interrupted
 * inside one: a half-run initialiser would keep its guard for ever, and a caught exception stays on a list of the
 * thread's until its block ends. Any thread. The runtime's own functions are there whenever these are called. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/api.h>

#include "scope_state.h"
#include "thread.h"

STINT_API int __cxa_guard_acquire(int64_t *guard);
STINT_API void __cxa_guard_release(int64_t *guard);
STINT_API void __cxa_guard_abort(int64_t *guard);
STINT_API void *__cxa_begin_catch(void *exception);
STINT_API void __cxa_end_catch(void);

static const int any_catch_block;

/* Two threads at once find the same. */
#define PLAIN(type, name)                                                                                              \
    static type _Atomic found;                                                                                         \
    type plain = atomic_load_explicit(&found, memory_order_relaxed);                                                   \
    if (__builtin_expect(plain == NULL, 0)) {                                                                          \
        *(void **)&plain = dlsym(RTLD_NEXT, name);                                                                     \
        atomic_store_explicit(&found, plain, memory_order_relaxed);                                                    \
    }

typedef int acquire_fn(int64_t *);
typedef void release_fn(int64_t *);
typedef void *begin_fn(void *);
typedef void end_fn(void);

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
