/* SPDX-License-Identifier: MIT
 *
 * Overrides of the ways to leave frames without a word to them: longjmp under all of its names, and setcontext. What this
 * library keeps of those frames is ended first (way.h). swapcontext leaves none, as it can be come back from. Any thread. */
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stint/api.h>
#include <ucontext.h>

#include "module_symbol.h"
#include "plain_jump.h"
#include "way.h"

#ifndef __x86_64__
#error "where a jump goes is read for x86-64"
#endif

typedef struct __jmp_buf_tag landing;
typedef void jump_fn(landing *, int);
typedef int context_fn(const ucontext_t *);

STINT_API _Noreturn void longjmp(landing to[1], int value);
STINT_API _Noreturn void _longjmp(landing to[1], int value);
STINT_API _Noreturn void siglongjmp(landing to[1], int value);
STINT_API _Noreturn void __longjmp_chk(landing to[1], int value);
STINT_API int setcontext(const ucontext_t *context);

/* glibc keeps it disguised. */
static uintptr_t stack_pointer(const landing *to)
{
    uintptr_t pointer = (uintptr_t)to->__jmpbuf[6];
    __asm__("rorq $17, %0\n\txorq %%fs:0x30, %0" : "+r"(pointer));
    return pointer;
}

static void leave(const landing *to)
{
    const sigset_t *mask = to->__mask_was_saved != 0 ? (const sigset_t *)(const void *)&to->__saved_mask : NULL;
    sti_way_leave(stack_pointer(to), mask);
}

/* Two threads at once find the same. siglongjmp is what libc calls all of them. */
_Noreturn static void jump(landing *to, int value, jump_fn *_Atomic *found, const char *name)
{
    jump_fn *plain = atomic_load_explicit(found, memory_order_relaxed);
    if (__builtin_expect(plain == NULL, 0)) {
        *(void **)&plain = sti_libc_function(name);
        atomic_store_explicit(found, plain, memory_order_relaxed);
    }
    plain(to, value);
    __builtin_unreachable();
}

_Noreturn void sti_plain_longjmp(landing *to, int value)
{
    static jump_fn *_Atomic found;
    jump(to, value, &found, "siglongjmp");
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
    static jump_fn *_Atomic found;
    leave(to);
    jump(to, value, &found, "__longjmp_chk");
}

int setcontext(const ucontext_t *context)
{
    static context_fn *_Atomic found;
    context_fn *plain = atomic_load_explicit(&found, memory_order_relaxed);
    if (__builtin_expect(plain == NULL, 0)) {
        *(void **)&plain = sti_libc_function("setcontext");
        atomic_store_explicit(&found, plain, memory_order_relaxed);
    }
    sti_way_leave((uintptr_t)context->uc_mcontext.gregs[REG_RSP], &context->uc_sigmask);
    return plain(context);
}
