/* SPDX-License-Identifier: MIT
 *
 * The stack of a thread: how far a task may use it, and what is left when it has. Calling thread only. */
#ifndef STI_ALLOC_INTERRUPT_STACK_H
#define STI_ALLOC_INTERRUPT_STACK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- The bound of a stack. Below what a thread may use lie pages that nobody may touch, the reserve, and below these a
 * guard. The first touch of either is a fault, whose handler (signals.c) runs on a stack of its own, and has it told
 * here.
 *
 *   guard      pad       low       late     early   limit                       high
 *   | nobody's |  landing ......... | second | first | the thread's stack ...... |
 *   |                    |<-------- reserve -------->|
 *
 * A fault in the first part, or in the second, makes the reserve usable from a few pages below it on: the code that was
 * stopped has room to go on in, and the next fault is another place where it may be left. So code whose stack ends in
 * libc or in mimalloc now ends in its own a moment later. The landing is never usable but for leaving a task, whose
 * frames may have used up all else: guards run there. So a part of the guard belongs to it, where there is one of this
 * library's; otherwise low is pad.
 *
 * Where the three lie depends on whose the thread is.
 *
 *   a worker's      below the stack that was asked for, as libc's guard of the thread's, which is so wide for that
 *   a pthread's     in the lowest parts of its stack, as that is all there is; a small one has small parts, and guard
 *                   is what libc made of its attributes
 *   the main one's  in the lowest parts of what its limit (RLIMIT_STACK, when it first runs a scope) allows. The kernel
 *                   lets this stack grow down to a mapping that nobody may touch without the gap of a MiB
 *                   (stack_guard_gap) that it keeps to all others. So the reserve is one, in a place where nothing else
 *                   is. Before it is made usable the stack has to have grown down to it, as it cannot do so afterwards;
 *                   a touch of its last byte does that. The guard is what lies below the limit, and not mapped
 *
 * Pages of a thread of the program's own are its own again outside of scopes, and when it ends: then a fault in them
 * makes all of them usable, and nobody has noticed. A stack that is no thread's (a coroutine's) has no bound here. */

/* Of a worker; of others at most. */
#define STI_STACK_GUARD ((size_t)1 << 20)
#define STI_STACK_RESERVE ((size_t)256 << 10)

/* The least that a worker can do with. */
#define STI_STACK_MIN ((size_t)64 << 10)

/* The calling thread has been started with a guard of these two, so its reserve is to lie there. Before its first
 * scope. */
void sti_stack_is_workers(void);

/* Give the pages of the stack back to the system that lie well below the caller's frame: a task that went deep left
 * them. */
void sti_stack_give_back(void);

/* A scope has been left, or is about to begin: what a fault has made usable is closed again, as far as no frame stands
 * there. Whether all of it is. */
bool sti_stack_settle(void);

/* A part of the reserve is in use; the second one is. */
bool sti_stack_is_spent(void);
bool sti_stack_is_nearly_spent(void);

/* The thread ends: what has been changed of its stack is as it was. */
void sti_stack_end(void);

/* What a fault was. */
enum sti_stack_fault {
    STI_STACK_NOT_OURS, /* nothing was done */
    STI_STACK_RETURNED, /* no scope is open: the program has its pages, and goes on */
    STI_STACK_FIRST,    /* there is room now, and there will be more */
    STI_STACK_SECOND,   /* there is room now, */
    STI_STACK_SPENT,    /* or none: but for leaving */
};

/* A fault at this address (0: unknown, as the kernel's of a signal frame is), of code with that stack pointer;
 * in_scope: the thread is in one. Only in its handler. */
enum sti_stack_fault sti_stack_take_fault(uintptr_t address, uintptr_t stack_pointer, bool in_scope);

/* The lowest address that may be read, the middle of the stack, and its upper end (0: it is not known). */
uintptr_t sti_stack_lowest(void);
uintptr_t sti_stack_middle(void);
uintptr_t sti_stack_highest(void);

/* Whether code with that stack pointer has so much room below it, up to this address, and stands on another
 * stack than this handler, which is on that for signals. What lies below the stack pointer and the red zone may be
 * changed. */
bool sti_stack_has_room(uintptr_t stack_pointer, uintptr_t down_to, const stack_t *for_signals);

/* Make the landing usable; its upper end. Only in the handler, once the task is sure to be left. */
uintptr_t sti_stack_open_landing(void);

/* At start. */
void sti_stack_start(void);

#endif
