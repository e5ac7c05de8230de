/* SPDX-License-Identifier: MIT
 *
 * Overrides of what leaves frames (longjmp, setcontext) and of what registers them to be left (the cancellation
 * cleanups of libc). Any thread. */
#undef _FORTIFY_SOURCE

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/detail/api.h>
#include <ucontext.h>

#include "alloc/interrupt/abandoned_frames.h"
#include "alloc/interrupt/hold.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/module.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- Overrides of the ways to leave frames without a word to them: longjmp under all of its names, and setcontext.
 * What this library keeps of those frames is ended first (abandoned_frames.h). swapcontext leaves none, as it can be
 * come back from. Any thread. */

typedef struct __jmp_buf_tag resume_point;

STINT_API _Noreturn void longjmp(resume_point to[1], int value);
STINT_API _Noreturn void _longjmp(resume_point to[1], int value) __attribute__((alias("longjmp")));
STINT_API _Noreturn void siglongjmp(resume_point to[1], int value) __attribute__((alias("longjmp")));
STINT_API _Noreturn void __longjmp_chk(resume_point to[1], int value);
STINT_API int setcontext(const ucontext_t *context);

static void frames_leave(const resume_point *to)
{
    const sigset_t *mask = to->__mask_was_saved != 0 ? (const sigset_t *)(const void *)&to->__saved_mask : NULL;
    if (!sti_assumption_fails(STI_ASSUMED_JUMPS))
        sti_way_leave(sti_resume_point_stack_pointer(to), mask);
}

_Noreturn void longjmp(resume_point to[1], int value)
{
    frames_leave(to);
    sti_real_longjmp(to, value);
}

/* Ends the process where the frame is not there any more. */
_Noreturn void __longjmp_chk(resume_point to[1], int value)
{
    STI_LIBC_FUNCTION(__longjmp_chk)
    frames_leave(to);
    real(to, value);
    __builtin_unreachable();
}

int setcontext(const ucontext_t *context)
{
    STI_LIBC_FUNCTION(setcontext)
    sti_way_leave(sti_registers_of(context).sp, &context->uc_sigmask);
    return real(context);
}

/* --- Overrides of what pthread_cleanup_push and _pop call in C code without unwind tables. Such a region has something
 * to release, and libc keeps a pointer to its frame until it ends; so it is held like a lock. Where the compiler turns
 * the region into a cleanup of its frame, nothing is called and nothing needs to be. Any thread. */

STINT_API void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
STINT_API void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);

void __pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
    STI_LIBC_FUNCTION(__pthread_register_cancel)
    real(buffer);
    if (sti_thread_metered != NULL && sti_rule_is_on(STI_RULE_CLEANUP))
        sti_hold_take(&sti_thread_metered->scope->holds, buffer);
}

void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    STI_LIBC_FUNCTION(__pthread_unregister_cancel)
    real(buffer);
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, buffer);
}
