/* SPDX-License-Identifier: MIT
 *
 * What has to be known of an x86-64 instruction to follow the ways through a function: how long it is, where it leads,
 * and which place in memory it names ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2,
 * appendix A). Takes no lock, allocates nothing. Any thread, signal handlers too. */
#ifndef STI_ALLOC_BASE_INSTRUCTION_H
#define STI_ALLOC_BASE_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

enum sti_instruction_flow {
    STI_INSTRUCTION_GOES_ON,  /* calls, too */
    STI_INSTRUCTION_BRANCHES, /* to target, or on */
    STI_INSTRUCTION_JUMPS,    /* to target */
    STI_INSTRUCTION_ENDS,     /* returns, jumps to where nobody knows, or traps */
};

/* Of what it names in memory: none, or not one of these. */
enum sti_instruction_place {
    STI_INSTRUCTION_NO_PLACE,
    STI_INSTRUCTION_BY_THREAD,   /* the thread pointer (fs) and displacement */
    STI_INSTRUCTION_BY_REGISTER, /* a register and displacement, of 32 bits */
    STI_INSTRUCTION_AT_REGISTER, /* a register */
};

struct sti_instruction {
    uint8_t length; /* 0: not understood */
    enum sti_instruction_flow flow;
    uintptr_t target;
    enum sti_instruction_place place;
    int32_t displacement;
    bool is_byte;         /* its operand in memory is one byte that is read, */
    bool writes_byte;     /* or one that is written, */
    bool writes_byte_one; /* with the number 1 */
};

/* The instruction there, of a function that ends at end. */
struct sti_instruction sti_instruction_at(uintptr_t address, uintptr_t end);

#endif
