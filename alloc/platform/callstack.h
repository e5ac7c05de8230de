/* SPDX-License-Identifier: MIT
 *
 * Callstacks, and the call frame tables by which they are walked. Any thread. */
#ifndef STI_ALLOC_PLATFORM_CALLSTACK_H
#define STI_ALLOC_PLATFORM_CALLSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "machine.h"

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

/* --- The frames of a stack, from the inside outwards: the one iterator of the library. Takes no lock, allocates
 * nothing, calls no unwinder. Any thread, in signal handlers too, and of code that is stopped anywhere.
 *
 * Debian's code has no frame pointers, and where there are none, what looks like one is any number. So each address is
 * looked up in the call frame tables that every module has for exceptions (DWARF's, in the form that the LSB gives
 * .eh_frame and .eh_frame_hdr). Read are the forms that compilers, linkers and glibc write; where a frame has none of
 * these, or no table, as generated code, the walk ends: nobody knows what lies further out.
 *
 * CFA, the canonical frame address, is where the caller's stack pointer is after the return. On x86-64 the return
 * address lies right below it. Elsewhere (STI_LINK_REGISTER) a call leaves it in a register, and a function that calls
 * others saves that where it likes; so the register is looked at only of a frame that a signal has interrupted, or
 * that the walk began at. */

/* How to get from a frame to its caller's. */
enum sti_frame_kind {
    STI_FRAME_BY_STACK_POINTER, /* CFA = stack pointer + offset */
    STI_FRAME_BY_FRAME_POINTER, /* CFA = frame pointer + offset */
    STI_FRAME_LAST,             /* it has no caller, or none that is known */
    STI_FRAME_OTHER,            /* none of the above: where a rule has to fit into few bits */
    STI_FRAME_ALIGNED, /* CFA is what lies at the frame pointer - offset: gcc's functions that align their stack */
    STI_FRAME_STUB,    /* x86-64's: CFA = rsp + 8, or 16 behind the linker's push, by which modules call each
                          other */
    STI_FRAME_SIGNAL,  /* the kernel's: all registers lie at the stack pointer */
};

struct sti_frame_rule {
    enum sti_frame_kind kind;
    uint32_t offset;
    uint32_t saved; /* the caller's frame pointer lies at CFA - saved; 0: it is the register's still */
#if STI_LINK_REGISTER
    uint32_t returned; /* the return address lies at CFA - returned; 0: it is the link register's still */
#endif
};

/* Of the frame that is at this instruction. */
struct sti_frame_rule sti_frame_rule(uintptr_t instruction);

/* Where the function begins and ends that the instruction is in, or the part of it that lies together. False:
 * unknown. */
bool sti_frame_function(uintptr_t instruction, uintptr_t *begin, uintptr_t *end);

/* The frame's personality: the function that tells an unwinder what to do with an exception there. 0: the frame has
 * none, so nothing is done there, or no table describes the frame. */
#define STI_FRAME_PERSONALITY_UNKNOWN UINTPTR_MAX /* it has one, and no compiler writes it like that here */
uintptr_t sti_frame_personality(uintptr_t instruction);

/* Rules that a walk has come to: in a deep recursion the same few addresses come again and again. On the walker's
 * stack, all bytes 0 at first. */
#define STI_WALK_REMEMBERED 128 /* a power of two */
struct sti_walk_rules {
    struct {
        uintptr_t instruction;
        struct sti_frame_rule rule;
    } of[STI_WALK_REMEMBERED];
};

struct sti_walk {
    struct sti_registers at; /* the frame that the walk has come to; with past_end only sp means something */
    bool is_exact;           /* it is at at.ip itself: where the walk began, or what a signal has interrupted; otherwise
                                it returns to there, from the instruction before */
    bool past_end;           /* the next frame begins beyond what may be read */
    uintptr_t end;           /* of the stack that may be read; 0: not known, so the system is asked of each word */
    struct sti_walk_rules *rules; /* NULL: none are remembered */
};

static inline struct sti_walk sti_walk_begin(struct sti_registers at, uintptr_t end, struct sti_walk_rules *rules)
{
    return (struct sti_walk){ .at = at, .is_exact = true, .end = end, .rules = rules };
}

/* The instruction that the frame is at. */
static inline uintptr_t sti_walk_instruction(const struct sti_walk *walk)
{
    return walk->at.ip - (walk->is_exact ? 0 : 1);
}

/* Go on to the frame's caller's. False: it has none, or none that is known; or it is past the end. */
bool sti_walk_out(struct sti_walk *walk);

/* Read a word that may not be readable. False: it is not. Changes errno. */
bool sti_walk_word(uintptr_t address, uintptr_t *word);

/* Of code that has run nothing since it was called: where it returns to, and with which registers. False: that cannot
 * be read. Changes errno. */
bool sti_walk_called(const struct sti_registers *at, struct sti_registers *caller);

/* --- Callstacks. Any thread. --- */

/* The callstack of an allocation. Fills in at most depth return addresses, the innermost first, and returns how many.
 * The allocation may come from libc's own code or the loader's, on any stack, with any lock held. caller is the first
 * address: frames below it are this library's.
 *
 * To read tables takes 0.1 to 0.5 µs a frame, far too long; but at one address the rule is always the same, and nearly
 * always one of the first two kinds. Such a rule fits in a word, and a cache of them makes a frame cost a few
 * nanoseconds. */
size_t sti_callstack(void **frames, size_t depth, const void *caller);

/* The callstack of code that a signal stopped. Fills in at most depth frames, and returns how many. frames[0] is where
 * the code was, the others are return addresses. The thread may be anywhere, and its registers be wrong: nothing but
 * the stack is read, up to its end where that is known (0: it is not), so whatever is taken for a frame makes no fault.
 * Half a microsecond a frame. */
size_t sti_callstack_of(struct sti_registers at, uintptr_t stack_end, void **frames, size_t depth);

#endif
