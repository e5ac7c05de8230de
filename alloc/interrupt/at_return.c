/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function; see at_return.h. Calling thread only. */
#include "at_return.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

#include "alloc/base/caller.h"

/* The table: a word that says how far away the addresses are that were replaced, and then the instructions, of 8 bytes
 * each, at the same distance from its beginning as their addresses are from the beginning of theirs. A processor may
 * not be halted by a program: that is a fault, without an address.
 *
 * The frame that each of them seems to be has no size, and its return address lies at
 *
 *   begin + *begin + (ip - begin), begin = ip & -512
 *
 * libgcc tells frames by their stack pointers, and this one has that of the function that it returns to. So an
 * exception that was on its way before the stop was made would be taken to have its handler here. It does not come
 * farther than here: it is resumed as if the function had done so that would have returned, without a stop. */
#define STOPS 64 /* the first is the word */
#define WIDTH 8

extern const unsigned char sti_at_return_table[] __attribute__((visibility("hidden")));
extern uintptr_t sti_at_return_replaced[STOPS] __attribute__((visibility("hidden")));
uintptr_t sti_at_return_replaced[STOPS] __attribute__((used));
extern const unsigned char sti_at_return_resume[] __attribute__((visibility("hidden")));
_Unwind_Reason_Code sti_at_return_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                              struct _Unwind_Exception *exception, struct _Unwind_Context *context)
    __attribute__((visibility("hidden"), used));

__asm__(
    ".pushsection .text\n"
    ".balign 512\n"
    ".globl sti_at_return_table\n"
    ".hidden sti_at_return_table\n"
    ".type sti_at_return_table, @function\n"
    "sti_at_return_table:\n"
    ".cfi_startproc\n"
    ".cfi_personality 0x1b, sti_at_return_personality\n"
    ".cfi_def_cfa 7, 0\n"
    ".cfi_escape 0x10, 16, 16, 0x80, 0, 0x12, 0x0a, 0xff, 1, 0x1a, 0x16, " /* breg16 0, dup, const2u 511, and, swap, */
    "0x0b, 0, 0xfe, 0x1a, 0x12, 0x06, 0x22, 0x22\n" /* const2s -512, and, dup, deref, plus, plus */
    ".quad sti_at_return_replaced - .\n"
    ".rept 63\n"
    "hlt\n"
    ".fill 7, 1, 0xcc\n"
    ".endr\n"
    ".cfi_endproc\n"
    ".size sti_at_return_table, . - sti_at_return_table\n"
    ".hidden sti_at_return_resume\n"
    ".type sti_at_return_resume, @function\n"
    "sti_at_return_resume:\n"
    "pushq %rdx\n" /* where it would have returned to */
    "movq %rax, %rdi\n"
    "jmp _Unwind_Resume@PLT\n"
    ".size sti_at_return_resume, . - sti_at_return_resume\n"
    ".popsection\n");

/* One bit for each that is taken; who has taken it has what was replaced. relaxed: only its thread looks at that. */
static _Atomic uint64_t taken = 1;

static _Thread_local struct {
    unsigned stop; /* 0: none */
    uintptr_t place;
    bool is_changing;
} own;

/* The others' threads are not there in the child of a fork(2). */
static void give_up_those_of_others(void)
{
    atomic_store_explicit(&taken, 1 | (uint64_t)1 << own.stop, memory_order_relaxed);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, give_up_those_of_others);
}

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
    unsigned next = claim(); /* another one: who walks may just have come to the one before */
    if (next != 0) {
        if (own.stop != 0) {
            restore(lowest);
            give_up();
        }
        sti_at_return_replaced[next] = *(uintptr_t *)place;
        own.stop = next;
        own.place = place;
        *(uintptr_t *)place = instruction_of(next);
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

_Unwind_Reason_Code sti_at_return_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                              struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    if ((actions & _UA_CLEANUP_PHASE) == 0 || (actions & _UA_FORCE_UNWIND) != 0)
        return _URC_CONTINUE_UNWIND;
    uintptr_t to = sti_at_return_take(_Unwind_GetIP(context));
    if (to == 0)
        return _URC_CONTINUE_UNWIND;
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (uintptr_t)exception);
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(1), to);
    _Unwind_SetIP(context, (uintptr_t)sti_at_return_resume);
    return _URC_INSTALL_CONTEXT;
}

void sti_at_return_forget(uintptr_t below)
{
    if (own.stop != 0 && own.place < below)
        give_up();
}
