/* SPDX-License-Identifier: MIT
 *
 * What aarch64 has that C does not name; only for machine.h, which says what each of these is. */
#ifndef STI_ALLOC_PLATFORM_MACHINE_AARCH64_H
#define STI_ALLOC_PLATFORM_MACHINE_AARCH64_H

#include <linux/audit.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/ifunc.h>
#include <ucontext.h>
#include <unistd.h>

#define STI_LINK_REGISTER 1
#define STI_CALL_ALIGNMENT 2
#define STI_STACK_UNIT 16
#define STI_RED_ZONE 0
#define STI_ADDRESS_BITS 48 /* the system maps what is beyond only if it is asked to */

/* --- Registers. --- */

struct sti_registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
    uintptr_t link;
};

static inline __attribute__((always_inline)) struct sti_registers sti_registers_here(void)
{
    struct sti_registers here;
    __asm__ volatile("adr %0, 0f\n\t"
                     "mov %1, sp\n\t"
                     "mov %2, x29\n\t"
                     "mov %3, x30\n"
                     "0:"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.bp), "=&r"(here.link));
    return here;
}

static inline struct sti_registers sti_registers_of(const ucontext_t *context)
{
    const mcontext_t *registers = &context->uc_mcontext;
    return (struct sti_registers){
        .ip = registers->pc, .sp = registers->sp, .bp = registers->regs[29], .link = registers->regs[30]
    };
}

/* x29 leads to the frame record, in the frame. */
#define STI_FRAME_ADDRESS() ((uintptr_t)__builtin_frame_address(0))

/* --- Frames. --- */

enum {
    STI_DWARF_FRAME_POINTER = 29,
    STI_DWARF_STACK_POINTER = 31,
    STI_DWARF_RETURN = 30,
};

#define STI_RETURNS_MAY_BE_SIGNED 1

/* xpaclri: it leaves an address without a signature as it is, and a processor without signatures does nothing. */
static inline uintptr_t sti_return_plain(uintptr_t address)
{
    register uintptr_t link __asm__("x30") = address;
    __asm__("hint #7" : "+r"(link));
    return link;
}

#define STI_SIGNAL_CONTEXT sizeof(siginfo_t)
#define STI_SIGNAL_IP (STI_SIGNAL_CONTEXT + offsetof(ucontext_t, uc_mcontext.pc))
#define STI_SIGNAL_SP (STI_SIGNAL_CONTEXT + offsetof(ucontext_t, uc_mcontext.sp))
#define STI_SIGNAL_BP (STI_SIGNAL_CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[29]))
#define STI_SIGNAL_LINK (STI_SIGNAL_CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[30]))

/* mov x8, #139; svc #0 */
#define STI_SIGNAL_RETURN UINT64_C(0xd4000001d2801168)

/* --- Jumps. --- */

#define STI_JUMP_WORD 13
#define STI_JUMP_IS_LEARNT 1

/* --- Floating-point modes. --- */

struct sti_float_modes {
    uint64_t control;
    uint64_t status;
};

static inline struct sti_float_modes sti_float_modes_now(void)
{
    struct sti_float_modes modes;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(modes.control), "=r"(modes.status));
    return modes;
}

static inline void sti_float_modes_set(const struct sti_float_modes *modes)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(modes->control), "r"(modes->status));
}

/* --- Pages. --- */

/* 4, 16 or 64 KiB: as the kernel was built. */
static inline size_t sti_page_size(void)
{
    return (size_t)getpagesize();
}

/* --- The counter: the one that the system's own clock is made of. --- */

#define STI_TICKS 1

static inline uint64_t sti_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

/* A microsecond: from 24 million to a thousand million a second are built. */
static inline uint64_t sti_ticks_of_reading(void)
{
    uint64_t frequency;
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency / 1000000 + 1;
}

/* --- Indirect functions. --- */

static inline uintptr_t sti_indirect(uintptr_t resolver)
{
    const __ifunc_arg_t features = { ._size = sizeof features,
                                     ._hwcap = getauxval(AT_HWCAP),
                                     ._hwcap2 = getauxval(AT_HWCAP2) };
    return ((uintptr_t(*)(uint64_t, const __ifunc_arg_t *))resolver)(features._hwcap | _IFUNC_ARG_HWCAP, &features);
}

/* --- Thread-local variables. --- */

static inline uintptr_t sti_thread_variables(ptrdiff_t offset)
{
    return offset > 0 ? (uintptr_t)__builtin_thread_pointer() + (uintptr_t)offset : 0;
}

/* --- System calls. --- */

#define STI_SYSTEM_CALLS AUDIT_ARCH_AARCH64

#endif
