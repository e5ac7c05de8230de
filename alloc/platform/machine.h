/* SPDX-License-Identifier: MIT
 *
 * What the processor has that C does not name: the registers that a walk of a stack begins with, the modes of
 * floating-point arithmetic, and a comparison in fewer instructions than a compiler takes. Any thread; signal handlers,
 * too. */
#ifndef STI_ALLOC_PLATFORM_MACHINE_H
#define STI_ALLOC_PLATFORM_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* The next instruction of a frame, its stack pointer and its frame pointer. */
struct sti_registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
};

/* Of the function that it stands in. */
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

/* Of code that a signal has stopped, or that setcontext would go on with. */
static inline struct sti_registers sti_registers_of(const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    return (struct sti_registers){ .ip = (uintptr_t)registers[REG_RIP],
                                   .sp = (uintptr_t)registers[REG_RSP],
                                   .bp = (uintptr_t)registers[REG_RBP] };
}

/* The floating-point modes of the calling thread: how results are rounded, and what traps. */
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

/* Is the value above the limit? Compilers load an atomic before they compare it, which is an instruction more. */
static inline bool sti_is_beyond(uint64_t value, const _Atomic uint64_t *limit)
{
    bool beyond;
    __asm__("cmpq %2, %1" : "=@cca"(beyond) : "r"(value), "m"(*limit));
    return beyond;
}

#endif
