/* SPDX-License-Identifier: MIT
 *
 * How to get from a frame to its caller's on x86-64, read from a module's call frame tables (DWARF's, in the form that
 * the LSB gives .eh_frame and .eh_frame_hdr). Takes no lock, allocates nothing. Any thread.
 *
 * CFA, the canonical frame address, is where the caller's stack pointer is after the return; the return address lies
 * right below it. */
#ifndef STI_ALLOC_FRAME_RULE_H
#define STI_ALLOC_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum sti_frame_kind {
    STI_FRAME_BY_STACK_POINTER, /* CFA = rsp + offset */
    STI_FRAME_BY_FRAME_POINTER, /* CFA = rbp + offset */
    STI_FRAME_LAST,             /* it has no caller, or none that is known */
    STI_FRAME_OTHER,            /* no rule of these */
};

struct sti_frame_rule {
    enum sti_frame_kind kind;
    uint32_t offset;
    uint32_t saved; /* the caller's rbp lies at CFA - saved; 0: it is rbp still */
};

/* Of the frame that is at this instruction. */
struct sti_frame_rule sti_frame_rule(uintptr_t instruction);

/* Where the function begins and ends that the instruction is in, or the part of it that lies together. False: unknown. */
bool sti_frame_function(uintptr_t instruction, uintptr_t *begin, uintptr_t *end);

#endif
