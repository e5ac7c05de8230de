/* SPDX-License-Identifier: MIT
 *
 * What x86-64 has that C does not name; only for machine.h, which says what each of these is. */
#ifndef STI_ALLOC_PLATFORM_MACHINE_X86_64_H
#define STI_ALLOC_PLATFORM_MACHINE_X86_64_H

#include <linux/audit.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define STI_LINK_REGISTER 0
#define STI_CALL_ALIGNMENT 0
#define STI_STACK_UNIT 8
#define STI_RED_ZONE 128
#define STI_ADDRESS_BITS 47

/* --- Registers. --- */

struct sti_registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
};

static inline __attribute__((always_inline)) struct sti_registers sti_registers_here(void)
{
    struct sti_registers here;
    __asm__ volatile("leaq 0f(%%rip), %0\n\t"
                     "movq %%rsp, %1\n\t"
                     "movq %%rbp, %2\n"
                     "0:"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.bp));
    return here;
}

static inline struct sti_registers sti_registers_of(const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    return (struct sti_registers){ .ip = (uintptr_t)registers[REG_RIP],
                                   .sp = (uintptr_t)registers[REG_RSP],
                                   .bp = (uintptr_t)registers[REG_RBP] };
}

/* rbp is near the upper end of the frame. */
#define STI_FRAME_ADDRESS() ((uintptr_t)__builtin_frame_address(0))

/* --- Frames. --- */

enum {
    STI_DWARF_FRAME_POINTER = 6,
    STI_DWARF_STACK_POINTER = 7,
    STI_DWARF_RETURN = 16,
};

#define STI_RETURNS_MAY_BE_SIGNED 0

static inline uintptr_t sti_return_plain(uintptr_t address)
{
    return address;
}

/* rsp + 8, and 8 more if rip & 15 is 11 or above */
#define STI_STUB_EXPRESSION                                                                                            \
    {                                                                                                                  \
        0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22                                               \
    }

#define STI_SIGNAL_IP (offsetof(ucontext_t, uc_mcontext.gregs) + REG_RIP * sizeof(greg_t))
#define STI_SIGNAL_SP (offsetof(ucontext_t, uc_mcontext.gregs) + REG_RSP * sizeof(greg_t))
#define STI_SIGNAL_BP (offsetof(ucontext_t, uc_mcontext.gregs) + REG_RBP * sizeof(greg_t))

/* --- Jumps. --- */

#define STI_JUMP_WORD 6
#define STI_JUMP_IS_LEARNT 0

static inline uintptr_t sti_jump_uncovered(uintptr_t word)
{
    __asm__("rorq $17, %0\n\txorq %%fs:0x30, %0" : "+r"(word));
    return word;
}

/* --- Floating-point modes. --- */

struct sti_float_modes {
    uint32_t sse;
    uint16_t x87;
};

static inline struct sti_float_modes sti_float_modes_now(void)
{
    struct sti_float_modes modes;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(modes.sse), "=m"(modes.x87));
    return modes;
}

static inline void sti_float_modes_set(const struct sti_float_modes *modes)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(modes->sse), "m"(modes->x87));
}

/* --- Numbers. --- */

#define STI_NUMBERS_ARE_QUICKER 1

/* Compilers load an atomic before they compare it, which is an instruction more. */
static inline bool sti_is_beyond(uint64_t value, const _Atomic uint64_t *limit)
{
    bool beyond;
    __asm__("cmpq %2, %1" : "=@cca"(beyond) : "r"(value), "m"(*limit));
    return beyond;
}

/* Compilers make three instructions of a relaxed load and a relaxed store. */
static inline void sti_raise_own(_Atomic uint64_t *counter, uint64_t by)
{
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(by) : "cc");
}

static inline size_t sti_page_size(void)
{
    return 4096;
}

/* --- The counter. --- */

#define STI_TICKS 1

static inline uint64_t sti_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static inline uint64_t sti_ticks_of_reading(void)
{
    return 1024;
}

/* --- Indirect functions. --- */

static inline uintptr_t sti_indirect(uintptr_t resolver)
{
    return ((uintptr_t(*)(void))resolver)();
}

/* --- Thread-local variables. --- */

static inline uintptr_t sti_thread_variables(ptrdiff_t offset)
{
    return offset > 0 ? (uintptr_t)pthread_self() - (uintptr_t)offset : 0;
}

/* --- System calls. --- */

#define STI_SYSTEM_CALLS AUDIT_ARCH_X86_64
#define STI_SYSTEM_CALLS_END 0x40000000 /* those of the x32 variant, which shares the architecture */

#endif
