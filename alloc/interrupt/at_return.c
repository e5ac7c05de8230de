/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function; see at_return.h. Calling thread only. */
#include "at_return.h"

#include <stdatomic.h>
#include <stddef.h>

#include "alloc/base/caller.h"

/* The table: a word that says how far away the addresses are that were replaced, and then the instructions, of 8 bytes
 * each, at the same distance from its beginning as their addresses are from the beginning of theirs. A processor may
 * not be halted by a program: that is a fault, without an address.
 *
 * By the first rule the frame has a size all the same, of one byte, or it would be taken for its caller; by the second
 * its caller has the stack pointer that it has. By the third its return address lies at
 *
 *   begin + *begin + (ip - begin), begin = ip & -512 */
#define STOPS 64 /* the first is the word */
#define WIDTH 8

extern const unsigned char sti_at_return_table[] __attribute__((visibility("hidden")));
extern uintptr_t sti_at_return_replaced[STOPS] __attribute__((visibility("hidden")));
uintptr_t sti_at_return_replaced[STOPS] __attribute__((used));

__asm__(".pushsection .text\n"
        ".balign 512\n"
        ".globl sti_at_return_table\n"
        ".hidden sti_at_return_table\n"
        ".type sti_at_return_table, @function\n"
        "sti_at_return_table:\n"
        ".cfi_startproc\n"
        ".cfi_def_cfa 7, 1\n"
        ".cfi_escape 0x16, 7, 2, 0x77, 0\n"                                    /* rsp is rsp + 0; next: breg16 0, */
        ".cfi_escape 0x10, 16, 16, 0x80, 0, 0x12, 0x0a, 0xff, 1, 0x1a, 0x16, " /* dup, const2u 511, and, swap, */
        "0x0b, 0, 0xfe, 0x1a, 0x12, 0x06, 0x22, 0x22\n" /* const2s -512, and, dup, deref, plus, plus */
        ".quad sti_at_return_replaced - .\n"
        ".rept 63\n"
        "hlt\n"
        ".fill 7, 1, 0xcc\n"
        ".endr\n"
        ".cfi_endproc\n"
        ".size sti_at_return_table, . - sti_at_return_table\n"
        ".popsection\n");

/* One bit for each that is taken; who has taken it has what was replaced. relaxed: only its thread looks at that. */
static _Atomic uint64_t taken = 1;

static _Thread_local struct {
    unsigned stop; /* 0: none */
    uintptr_t place;
    bool is_changing;
} own;

static uintptr_t instruction_of(unsigned stop)
{
    return (uintptr_t)sti_at_return_table + (size_t)stop * WIDTH;
}

static unsigned claim(void)
{
    uint64_t before = atomic_load_explicit(&taken, memory_order_relaxed);
    unsigned stop;
    do {
        if (before == UINT64_MAX)
            return 0;
        stop = (unsigned)__builtin_ctzll(~before);
    } while (!atomic_compare_exchange_weak_explicit(&taken, &before, before | (uint64_t)1 << stop, memory_order_relaxed,
                                                    memory_order_relaxed));
    return stop;
}

static void give_up(void)
{
    atomic_fetch_and_explicit(&taken, ~((uint64_t)1 << own.stop), memory_order_relaxed);
    own.stop = 0;
}

static STI_CALLER_UNINSTRUMENTED void restore(uintptr_t lowest)
{
    uintptr_t *place = (uintptr_t *)own.place;
    if (own.place >= lowest && *place == instruction_of(own.stop))
        *place = sti_at_return_replaced[own.stop];
}

/* A fault of the stack in the midst of it is not to change what is being changed. */
STI_CALLER_UNINSTRUMENTED void sti_at_return_stop(uintptr_t place, uintptr_t lowest)
{
    if (own.is_changing || sti_has_shadow_stack())
        return;
    own.is_changing = true;
    atomic_signal_fence(memory_order_seq_cst);
    if (own.stop != 0)
        restore(lowest);
    else
        own.stop = claim();
    if (own.stop != 0) {
        sti_at_return_replaced[own.stop] = *(uintptr_t *)place;
        own.place = place;
        *(uintptr_t *)place = instruction_of(own.stop);
    }
    atomic_signal_fence(memory_order_seq_cst);
    own.is_changing = false;
}

uintptr_t sti_at_return_take(uintptr_t instruction)
{
    if (own.stop == 0 || instruction != instruction_of(own.stop))
        return 0;
    uintptr_t replaced = sti_at_return_replaced[own.stop];
    give_up();
    return replaced;
}

void sti_at_return_forget(uintptr_t below)
{
    if (own.stop != 0 && own.place < below)
        give_up();
}
