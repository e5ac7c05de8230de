/* SPDX-License-Identifier: MIT
 *
 * Callstacks, and the call frame tables by which they are walked. Any thread. */
#ifndef STI_ALLOC_BASE_CALLSTACK_H
#define STI_ALLOC_BASE_CALLSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- DWARF's numbers of variable length, seven bits a byte, the lowest first. Any thread. --- */

static inline uint64_t sti_leb128_read(const uint8_t **at, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = *(*at)++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~(uint64_t)0 << shift;
    return value;
}

/* Of any alignment. */
static inline int32_t sti_read_s32(const void *at)
{
    int32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t sti_leb128_unsigned(const uint8_t **at)
{
    return sti_leb128_read(at, false);
}

static inline int64_t sti_leb128_signed(const uint8_t **at)
{
    return (int64_t)sti_leb128_read(at, true);
}

/* --- Callstacks, taken at any allocation: in libc's own, in the loader's, on any stack, with any lock held. Takes no
 * lock and allocates nothing. Any thread.
 *
 * Debian's code has no frame pointers, and where there are none, what looks like one is any number. So each return
 * address is looked up in the call frame tables that every module has for exceptions. To read them takes 0.1 to 0.5 µs
 * a frame, far too long; but at one address the rule is always the same, and nearly always of one form: the frame above
 * begins at the stack pointer (or at the frame pointer) plus a number. Such a rule fits in a word, and a cache of them
 * makes a frame cost a few nanoseconds. Where a frame has no such rule (a signal's), the whole stack is unwound by
 * libgcc. */

/* Fill in at most depth return addresses, the innermost first, and say how many. caller is the first: frames below it
 * are this library's. */
size_t sti_callstack(void **frames, size_t depth, const void *caller);

/* --- How to get from a frame to its caller's on x86-64, read from a module's call frame tables (DWARF's, in the form
 * that the LSB gives .eh_frame and .eh_frame_hdr). Takes no lock, allocates nothing. Any thread.
 *
 * CFA, the canonical frame address, is where the caller's stack pointer is after the return; the return address lies
 * right below it. */

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

/* A frame: where it goes on, its stack pointer and its frame pointer. */
struct sti_registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
};

/* Go to its caller's by one of the first two kinds of rules. False: there is no such caller. */
bool sti_frame_step(struct sti_registers *registers, const struct sti_frame_rule *rule);

/* Where the function begins and ends that the instruction is in, or the part of it that lies together. False:
 * unknown. */
bool sti_frame_function(uintptr_t instruction, uintptr_t *begin, uintptr_t *end);

#endif
