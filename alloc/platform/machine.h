/* SPDX-License-Identifier: MIT
 *
 * What the processor has that C does not name. Each processor has a header of its own, which says the same things under
 * the same names; whoever needs one of them includes this file. Any thread; signal handlers, too.
 *
 *   struct sti_registers         the next instruction of a frame (ip), its stack pointer (sp), its frame pointer (bp),
 *                                and with STI_LINK_REGISTER the register that a call puts its return address into
 *                                (link)
 *   sti_registers_here()         of the function that it stands in
 *   sti_registers_of(context)    of code that a signal has stopped, or that setcontext would go on with
 *   STI_LINK_REGISTER            1: a call leaves its return address in a register; 0: on the stack
 *   STI_CALL_ALIGNMENT           return addresses are multiples of 2 to the power of this
 *   STI_STACK_UNIT               frames have sizes that are multiples of this
 *   STI_RED_ZONE                 bytes below the stack pointer that a signal leaves as they are
 *   STI_DWARF_*                  the numbers of registers in call frame tables
 *   STI_RETURNS_MAY_BE_SIGNED    and then tables say where they are
 *   sti_return_plain(address)    a return address without its signature
 *   STI_SIGNAL_*                 where the kernel puts the registers of what a signal stops, from the stack pointer on
 *   STI_SIGNAL_RETURN            the instructions that a handler returns to, where no table describes them
 *   STI_STUB_EXPRESSION          the bytes by which a linker describes the stubs that modules call each other by
 *   STI_FRAME_ADDRESS()          an address in the frame of the function that it stands in: above all that it calls,
 *                                below all that has called it
 *   STI_JUMP_WORD                which word of a jmp_buf of glibc's is the stack pointer, and with
 *   STI_JUMP_IS_LEARNT           1: it is disguised by an exclusive or with a word that the process has for that, 0:
 *   sti_jump_uncovered(word)     by what this takes away
 *   struct sti_float_modes       how results are rounded, what traps, and what has happened
 *   sti_float_modes_now(), sti_float_modes_set()
 *   sti_is_beyond(value, limit), sti_raise_own(counter, by)
 *                                a comparison, and an addition to what no other thread writes; both relaxed, and in
 *                                fewer instructions than a compiler takes
 *   STI_ADDRESS_BITS             of an address of the program's
 *   sti_page_size()              of the system's pages: the least that can be mapped or protected
 *   STI_TICKS                    1: there is a counter that is quicker to read than the system's clock, sti_ticks();
 *                                in sti_ticks_of_reading() of it the clock is read
 *   sti_indirect(resolver)       the code that an indirect function's resolver chooses, called as the loader does it
 *   sti_thread_variables(offset) where in the calling thread a module's variables begin that the loader says to lie at
 *                                this offset of each thread (l_tls_offset); 0: it says that they lie at none
 *   STI_SYSTEM_CALLS             the architecture that seccomp names for system calls; STI_SYSTEM_CALLS_END: calls of
 *                                another kind have numbers from there on */
#ifndef STI_ALLOC_PLATFORM_MACHINE_H
#define STI_ALLOC_PLATFORM_MACHINE_H

#if defined(__x86_64__) && defined(__LP64__)
#include "machine_x86_64.h"
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#include "machine_aarch64.h"
#elif defined(__riscv) && __riscv_xlen == 64
#include "machine_riscv64.h"
#else
#error "no header says what this processor has: see Other processors in docs/machines.md"
#endif

#ifndef STI_NUMBERS_ARE_QUICKER /* than what a compiler makes of this */

static inline bool sti_is_beyond(uint64_t value, const _Atomic uint64_t *limit)
{
    return value > atomic_load_explicit(limit, memory_order_relaxed);
}

static inline void sti_raise_own(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

#endif

#endif
