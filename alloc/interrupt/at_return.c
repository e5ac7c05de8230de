/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function; see at_return.h. Calling thread only. */
#include "at_return.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "alloc/base/caller.h"
#include "alloc/base/callstack.h"
#include "alloc/base/process.h"

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
#define SEARCHED 64 /* frames */

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

/* Who has each: 0, nobody, or a number that no other has had, which its maker knows. A stop on the stack of the thread
 * that makes it is the maker's, to be moved and forgotten: what lies there the thread knows. One on another stack, a
 * coroutine's, is left to whoever returns there: that may be another thread, or nobody, as the stack is unmapped or
 * used for something else. So it is looked at only where none is free any more, by a system call that says where
 * nothing is mapped: whose place holds another address than its instruction's is free.
 *
 *   0 -> n        its maker; then it writes what was replaced, and the place
 *   n -> n + 1    the same: it is left
 *   n -> 0        its maker: moved or forgotten. A thread that returns there, any: taken
 *   n + 1 -> 0    any that returns there; and who finds that it is none any more
 *
 * Each end is a compare-and-swap of the number that was read: acquire, release, as a new maker writes what this one has
 * read. A maker whose stop another thread has taken finds another number there, and lets it be. */
static _Atomic uint64_t holders[STOPS];
static _Atomic uintptr_t places[STOPS];
static _Atomic uint64_t last_number;

#define LEFT UINT64_C(1)

static _Thread_local struct {
    unsigned stop; /* that is its own; 0: none */
    uint64_t number;
    uintptr_t place;
    bool is_changing;
} own;

/* The others' threads are not there in the child of a fork(2); coroutines are. */
STI_FORK_HANDLER void sti_at_return_in_child(void)
{
    for (unsigned stop = 1; stop < STOPS; stop++) {
        if (stop != own.stop && (atomic_load_explicit(&holders[stop], memory_order_relaxed) & LEFT) == 0)
            STI_SET_IN_CHILD(holders[stop], 0);
    }
}

static uintptr_t instruction_of(unsigned stop)
{
    return (uintptr_t)sti_at_return_table + (size_t)stop * WIDTH;
}

static bool change_holder(unsigned stop, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&holders[stop], &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static unsigned claim_free(uint64_t number)
{
    unsigned stop = 1;
    while (stop < STOPS && !change_holder(stop, 0, number))
        stop++;
    return stop < STOPS ? stop : 0;
}

/* Where the system does not say, it does. */
static bool may_hold(uintptr_t place, uintptr_t instruction)
{
    uintptr_t held = instruction;
    struct iovec to = { .iov_base = &held, .iov_len = sizeof held };
    struct iovec from = { .iov_base = (void *)place, .iov_len = sizeof held };
    return process_vm_readv(gettid(), &to, 1, &from, 1, 0) < 0 ? errno != EFAULT : held == instruction;
}

static void free_those_that_are_gone(void)
{
    int saved_errno = errno;
    for (unsigned stop = 1; stop < STOPS; stop++) {
        uint64_t holder = atomic_load_explicit(&holders[stop], memory_order_acquire);
        uintptr_t place = atomic_load_explicit(&places[stop], memory_order_relaxed);
        if ((holder & LEFT) != 0 && !may_hold(place, instruction_of(stop)))
            change_holder(stop, holder, 0);
    }
    errno = saved_errno;
}

/* 0: there is none. */
static unsigned claim(uint64_t number)
{
    unsigned stop = claim_free(number);
    if (stop != 0)
        return stop;
    free_those_that_are_gone();
    return claim_free(number);
}

static bool is_own(unsigned stop)
{
    return stop == own.stop && atomic_load_explicit(&holders[stop], memory_order_relaxed) == own.number;
}

static void give_up(void)
{
    change_holder(own.stop, own.number, 0);
    own.stop = 0;
}

static STI_CALLER_UNINSTRUMENTED void restore(uintptr_t lowest)
{
    uintptr_t *place = (uintptr_t *)own.place;
    if (own.place >= lowest && is_own(own.stop) && *place == instruction_of(own.stop))
        *place = sti_at_return_replaced[own.stop];
}

static STI_CALLER_UNINSTRUMENTED void make(unsigned stop, uint64_t number, uintptr_t place, bool is_left)
{
    sti_at_return_replaced[stop] = *(uintptr_t *)place;
    atomic_store_explicit(&places[stop], place, memory_order_relaxed);
    *(uintptr_t *)place = instruction_of(stop);
    if (is_left) {
        atomic_store_explicit(&holders[stop], number | LEFT, memory_order_release);
        return;
    }
    own.stop = stop;
    own.number = number;
    own.place = place;
}

/* A fault of the stack in the midst of it is not to change what is being changed. */
STI_CALLER_UNINSTRUMENTED void sti_at_return_stop(uintptr_t place, uintptr_t lowest, uintptr_t end)
{
    if (own.is_changing || sti_has_shadow_stack())
        return;
    own.is_changing = true;
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t number = atomic_fetch_add_explicit(&last_number, 2, memory_order_relaxed) + 2;
    unsigned next = claim(number); /* another one: who walks may just have come to the one before */
    bool is_left = place < lowest || place >= end;
    if (next != 0) {
        if (own.stop != 0 && !is_left) {
            restore(lowest);
            give_up();
        }
        make(next, number, place, is_left);
    }
    atomic_signal_fence(memory_order_seq_cst);
    own.is_changing = false;
}

uintptr_t sti_at_return_take(uintptr_t instruction)
{
    uintptr_t offset = instruction - (uintptr_t)sti_at_return_table;
    unsigned stop = offset < (uintptr_t)STOPS * WIDTH && offset % WIDTH == 0 ? (unsigned)(offset / WIDTH) : 0;
    uint64_t holder = stop != 0 ? atomic_load_explicit(&holders[stop], memory_order_acquire) : 0;
    if (holder == 0)
        return 0;
    uintptr_t replaced = sti_at_return_replaced[stop];
    if (is_own(stop))
        own.stop = 0;
    change_holder(stop, holder, 0);
    return replaced;
}

uintptr_t sti_at_return_place(const struct sti_registers *stopped, uintptr_t end)
{
    struct sti_walk walk = sti_walk_begin(*stopped, end, NULL);
    uintptr_t instruction = stopped->ip;
    for (int i = 0; i < SEARCHED && sti_caller_is_protected(instruction) && walk.at.sp < end; i++) {
        uintptr_t callee = instruction;
        if (!sti_walk_out(&walk))
            return 0;
        instruction = sti_walk_instruction(&walk);
        if (!sti_caller_is_protected(instruction))
            return sti_caller_is_loader((const void *)callee) ? 0 : walk.at.sp - sizeof(uintptr_t);
    }
    return 0;
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
