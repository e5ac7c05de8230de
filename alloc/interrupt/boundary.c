/* SPDX-License-Identifier: MIT
 *
 * The boundary around what the library calls, and what becomes of that which comes to it; see boundary.h. Any thread.
 *
 * Each boundary is a variable with a cleanup attribute, which runs when the frame is left by an exception or by the end
 * of the thread (a forced unwind). An exception without a handler further out ends the program before that, where it
 * is thrown. */
#include "boundary.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/platform/instrumentation.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "cxx.h"
#include "hold.h"

_Noreturn void sti_boundary_end_program(const struct sti_scope *scope, const char *how)
{
    sti_misuse_note(scope, how);
    void (*terminate)(void);
    *(void **)&terminate = sti_cxx_function("_ZSt9terminatev", NULL);
    if (terminate != NULL)
        terminate();
    abort();
}

/* --- Scopes. Thread of the scope. --- */

/* Guards that have not been popped lay in frames that have gone, so they are dropped. An exception may be what an
 * interrupt has come to, such as the std::bad_alloc of an exhausted limit: then the scope resumes. An unwind of our own
 * does not come here; the thread may end in what that has called. */
static __attribute__((noinline, cold)) void leave_scope(struct sti_scope *scope)
{
    scope->guards = NULL;
    sti_cxx_look();
    sti_cxx_extend(&scope->cxx);
    if (sti_cxx_is_throwing(&scope->cxx, scope->unwind.under_way)) {
        sti_hooks.unwind_at_boundary();
        sti_boundary_end_program(scope, "an exception left its function");
    }
    if (scope->unwind.under_way)
        sti_cxx_restore(&scope->cxx);
    if (sti_frames_are_of_a_pool(scope))
        sti_boundary_end_program(scope, "called pthread_exit, or was cancelled");
    sti_misuse_note(scope, "its thread ends inside it");
    sti_hooks.abandon_scope(scope);
}

static inline void end_scope(struct sti_scope *const *left)
{
    if (__builtin_expect(*left == NULL, 1))
        return;
    STI_FRAMES_HAVE_GONE();
    leave_scope(*left);
}

STI_BOUNDARY_CODE int sti_boundary_run(struct sti_scope *scope, stint_fn *fn, void *arg, void **value)
{
    __attribute__((cleanup(end_scope))) struct sti_scope *left = scope;
    int code = fn(arg, value);
    left = NULL;
    return code;
}

/* --- Callbacks. Any thread. --- */

_Thread_local struct sti_callback *sti_callback_innermost;

static __attribute__((noinline, cold)) void leave_callback(const struct sti_callback *callback)
{
    if (sti_cxx_is_throwing(&callback->cxx, 0))
        sti_boundary_end_program(sti_scope_innermost(), "an exception left a callback");
    if (!callback->is_release)
        sti_boundary_end_program(sti_scope_innermost(), "a callback called pthread_exit");
}

void sti_boundary_leave_all(void)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_callback *callback = sti_callback_innermost;
    sti_callback_innermost = NULL; /* what the thread's destructors call lies in none of these */
    if (callback != NULL)
        leave_callback(callback);
    while (thread != NULL && thread->scope != NULL)
        leave_scope(thread->scope);
}

void sti_boundary_end_thread(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (!STI_LIBC_UNWINDS_THREADS) {
        sti_boundary_leave_all();
    } else if (thread != NULL && thread->scope != NULL) {
        thread->scope = NULL;
        sti_thread_return_to(thread, NULL);
    }
}

static inline void begin_callback(struct sti_callback *callback, bool is_release)
{
    callback->outer = sti_callback_innermost;
    callback->is_release = is_release;
    sti_cxx_note(&callback->cxx);
    sti_callback_innermost = callback;
}

/* When it has returned, it is not the innermost any more. */
static inline void end_callback(const struct sti_callback *callback)
{
    if (__builtin_expect(sti_callback_innermost != callback, 1))
        return;
    sti_callback_innermost = callback->outer;
    leave_callback(callback);
}

STI_BOUNDARY_CODE void sti_boundary_callback(void *a, void *b, void *c, sti_boundary_fn *fn)
{
    __attribute__((cleanup(end_callback))) struct sti_callback callback;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    begin_callback(&callback, false);
    fn(a, b, c);
    if (sti_process_is_partial())
        sti_process_end_thread_of_part();
    sti_callback_innermost = callback.outer;
    sti_thread_set_cancellation(cancellation);
}

STI_BOUNDARY_CODE void sti_boundary_release(void (*release)(void *arg), void *arg)
{
    __attribute__((cleanup(end_callback))) struct sti_callback callback;
    begin_callback(&callback, true);
    release(arg);
    if (sti_process_is_partial())
        sti_process_end_thread_of_part();
    sti_callback_innermost = callback.outer;
}
