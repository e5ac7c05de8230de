/* SPDX-License-Identifier: MIT
 *
 * What riscv64 has that C does not name; only for machine.h, which says what each of these is. */
#ifndef STI_ALLOC_PLATFORM_MACHINE_RISCV64_H
#define STI_ALLOC_PLATFORM_MACHINE_RISCV64_H

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

#define STI_LINK_REGISTER 1
#define STI_CALL_ALIGNMENT 1
#define STI_STACK_UNIT 16
#define STI_RED_ZONE 0
#define STI_ADDRESS_BITS 47 /* the system maps what is beyond only if it is asked to */

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
    __asm__ volatile("auipc %0, 0\n\t"
                     "mv %1, sp\n\t"
                     "mv %2, s0\n\t"
                     "mv %3, ra"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.bp), "=&r"(here.link));
    return here;
}

/* Their numbers in a signal's context, where the place of zero, number 0, has the next instruction. */
enum {
    STI_RISCV_RA = 1,
    STI_RISCV_SP = 2,
    STI_RISCV_S0 = 8,
};

static inline struct sti_registers sti_registers_of(const ucontext_t *context)
{
    const unsigned long *registers = context->uc_mcontext.__gregs;
    return (struct sti_registers){ .ip = registers[0],
                                   .sp = registers[STI_RISCV_SP],
                                   .bp = registers[STI_RISCV_S0],
                                   .link = registers[STI_RISCV_RA] };
}

/* s0 is the end of the frame, and so the caller's already; the two words below it are the frame's. */
#define STI_FRAME_ADDRESS() ((uintptr_t)__builtin_frame_address(0) - 2 * sizeof(uintptr_t))

/* --- Frames. --- */

enum {
    STI_DWARF_FRAME_POINTER = 8,
    STI_DWARF_STACK_POINTER = 2,
    STI_DWARF_RETURN = 1,
};

#define STI_RETURNS_MAY_BE_SIGNED 0

static inline uintptr_t sti_return_plain(uintptr_t address)
{
    return address;
}

#define STI_SIGNAL_CONTEXT (sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.__gregs))
#define STI_SIGNAL_IP STI_SIGNAL_CONTEXT
#define STI_SIGNAL_SP (STI_SIGNAL_CONTEXT + STI_RISCV_SP * sizeof(unsigned long))
#define STI_SIGNAL_BP (STI_SIGNAL_CONTEXT + STI_RISCV_S0 * sizeof(unsigned long))
#define STI_SIGNAL_LINK (STI_SIGNAL_CONTEXT + STI_RISCV_RA * sizeof(unsigned long))

/* li a7, 139; ecall */
#define STI_SIGNAL_RETURN UINT64_C(0x0000007308b00893)

/* --- Jumps: glibc disguises nothing here, so what is learnt is 0. --- */

#define STI_JUMP_WORD 13
#define STI_JUMP_IS_LEARNT 1

/* --- Floating-point modes. --- */

struct sti_float_modes {
    uint64_t control_and_status;
};

static inline struct sti_float_modes sti_float_modes_now(void)
{
    struct sti_float_modes modes;
    __asm__ volatile("frcsr %0" : "=r"(modes.control_and_status));
    return modes;
}

static inline void sti_float_modes_set(const struct sti_float_modes *modes)
{
    __asm__ volatile("fscsr %0" : : "r"(modes->control_and_status));
}

/* --- Pages. --- */

static inline size_t sti_page_size(void)
{
    return (size_t)getpagesize();
}

/* --- The counter: to read it traps into the firmware on many machines, and nothing says on which. --- */

#define STI_TICKS 0

/* --- Indirect functions: since glibc 2.40 their resolvers are given a function by which they ask the kernel. --- */

#define STI_RISCV_HWPROBE 258

typedef int sti_riscv_ask(void *pairs, size_t count, size_t cpu_count, unsigned long *cpus, unsigned flags);

static inline int sti_riscv_ask_kernel(void *pairs, size_t count, size_t cpu_count, unsigned long *cpus, unsigned flags)
{
    return syscall(STI_RISCV_HWPROBE, pairs, count, cpu_count, cpus, flags) == 0 ? 0 : errno;
}

static inline uintptr_t sti_indirect(uintptr_t resolver)
{
    return ((uintptr_t(*)(uint64_t, sti_riscv_ask *, void *))resolver)(getauxval(AT_HWCAP), sti_riscv_ask_kernel, NULL);
}

/* --- Thread-local variables. --- */

static inline uintptr_t sti_thread_variables(ptrdiff_t offset)
{
    return offset >= 0 ? (uintptr_t)__builtin_thread_pointer() + (uintptr_t)offset : 0;
}

/* --- System calls. --- */

#define STI_SYSTEM_CALLS AUDIT_ARCH_RISCV64

#endif
