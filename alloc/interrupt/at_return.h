/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function: the next best place for code that cannot be left where its stack has come to its
 * end. Calling thread only. */
#ifndef STI_ALLOC_INTERRUPT_AT_RETURN_H
#define STI_ALLOC_INTERRUPT_AT_RETURN_H

#include <stdbool.h>
#include <stdint.h>

/* --- A function of libc's, or of another protected module, which has run out of stack, cannot be left, and goes on in
 * the reserve. When it has returned its caller could be left; but a caller that calls it at each level of a recursion
 * is never found there by a fault of its own, as what it calls is always deeper. So the return itself is made a fault:
 * the place on the stack where the return address lies gets that of an instruction which nobody may execute, in a table
 * of such. The handler finds there what it was, and all registers as the caller is to have them.
 *
 * Whoever unwinds through such an address goes on where it would have: the table has a rule in the unwind tables, by
 * which the frame without a size that it seems to be returns to what was there (DWARF 5, 6.4). A thread has one stop at
 * a time on its stack: it is moved. In the place of a frame that was jumped over it does nothing. One on another stack
 * stays where it is, as a coroutine may go on in another thread, or never: any thread may return there. There are as
 * many as threads that end their stacks at a time may need; and none where the processor keeps return addresses of its
 * own (a shadow stack), which are not to be changed. The idea of it is that of the kernel's return probes
 * (uretprobes) */

/* Read without a change where there is none: the instruction is none of old processors'. */
static inline bool sti_has_shadow_stack(void)
{
    uint64_t pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer));
    return pointer != 0;
}

/* Stop when the address is returned to that lies there. From lowest up to end is the thread's stack, as far as it may
 * be read. */
void sti_at_return_stop(uintptr_t place, uintptr_t lowest, uintptr_t end);

/* Where on the stack the address lies that is returned to when the innermost frame is left which may not be left in
 * every way: what was stopped is that itself, or it has called it. 0: there is none that can be found, or it was the
 * loader, which goes on with another function. */
struct sti_registers;
uintptr_t sti_at_return_place(const struct sti_registers *stopped, uintptr_t end);

/* Where the stopped code goes on, if the instruction is a stop's, of whichever thread, which there is no more then; 0:
 * it is none. In the handler. */
uintptr_t sti_at_return_take(uintptr_t instruction);

/* The thread's stack has no frames below this address any more. */
void sti_at_return_forget(uintptr_t below);

/* In the child of a fork(2). */
void sti_at_return_in_child(void);

#endif
