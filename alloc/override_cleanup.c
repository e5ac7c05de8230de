/* SPDX-License-Identifier: MIT
 *
 * Overrides of what pthread_cleanup_push and _pop call in C code without unwind tables. Such a region has something to
 * release, and libc keeps a pointer to its frame until it ends; so it is held like a lock. Where the compiler turns the
 * region into a cleanup of its frame, nothing is called and nothing needs to be. Any thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stint/api.h>

#include "module_symbol.h"
#include "rules.h"
#include "scope_state.h"
#include "thread.h"

STINT_API void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
STINT_API void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);

typedef void cancel_fn(__pthread_unwind_buf_t *);

/* Two threads at once find the same. */
static void call_plain(cancel_fn *_Atomic *found, const char *name, __pthread_unwind_buf_t *buffer)
{
    cancel_fn *plain = atomic_load_explicit(found, memory_order_relaxed);
    if (__builtin_expect(plain == NULL, 0)) {
        *(void **)&plain = sti_libc_function(name);
        atomic_store_explicit(found, plain, memory_order_relaxed);
    }
    plain(buffer);
}

void __pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
    static cancel_fn *_Atomic found;
    call_plain(&found, "__pthread_register_cancel", buffer);
    if (sti_thread_metered != NULL && sti_rule_is_on(STI_RULE_CLEANUP))
        sti_scope_take_hold(sti_thread_metered->scope, buffer);
}

void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    static cancel_fn *_Atomic found;
    call_plain(&found, "__pthread_unregister_cancel", buffer);
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, buffer);
}
