/* SPDX-License-Identifier: MIT
 *
 * Interrupts; what they have to wait for: hold.h. Thread of the scope only, unless a function says otherwise. */
#ifndef STI_ALLOC_INTERRUPT_INTERRUPT_H
#define STI_ALLOC_INTERRUPT_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/interrupt.h>
#include <stint/task.h>
#include <sys/select.h> /* sigset_t */

#include "alloc/platform/clock.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- Interrupts: what has tripped a scope, whether it may be delivered here and now, and the jump. Thread of the scope
 * only.
 *
 * A scope is tripped once, with the first reason. The interrupt is due at a point of the code when no scope between the
 * tripped one and the innermost is masked: jumping out of a masked region's callees would leave it half done just as
 * well. Whose frames are left is decided scope by scope: the innermost scope's mode says how its own code is left; when
 * that scope has ended, the one around it goes on with the interrupt. */

/* Trip the scope unless it is already. */
void sti_interrupt_trip(struct sti_scope *scope, stint_reason reason);

/* Look at the tokens and deadlines of the scope and those around it, and trip what is to be. now is by sti_clock_now;
 * 0: the cheap clock will do. */
void sti_interrupt_look(struct sti_scope *innermost, uint64_t now);

/* Nothing has been requested since the last look, and no limit of time can have been reached by now: what is due first
 * is known (watch.h). */
static inline bool sti_interrupt_is_too_early(const struct sti_scope *innermost, uint64_t requests, uint64_t now)
{
    if ((requests | STI_LOOKED_TIMED) != innermost->looked)
        return false;
    uint64_t due = atomic_load_explicit(&innermost->thread->next_deadline, memory_order_seq_cst);
    return due > (now != 0 ? now : sti_clock_coarse());
}

/* The same, where nothing may have changed since the last look: then it is a load, and where there is a limit of time
 * one more and the clock. */
static inline void sti_interrupt_look_again(struct sti_scope *innermost, uint64_t now)
{
    uint64_t requests = atomic_load_explicit(&sti_thread_requests, memory_order_seq_cst);
    if (__builtin_expect(requests != innermost->looked, 0) && !sti_interrupt_is_too_early(innermost, requests, now))
        sti_interrupt_look(innermost, now);
}

/* Of a scope that is in no other: whether its task is to end for the process's memory limit. A group's victim is its
 * task's thread, whatever that runs meanwhile. Any thread that may read the scope. */
bool sti_interrupt_is_victim(const struct sti_scope *scope);

/* Trip all threads of a task, unless one of them is already. Returns the present reason. Any thread of the task. */
stint_reason sti_interrupt_trip_shared(struct sti_shared_interrupt *shared, stint_reason reason);

/* Whether another thread of its task has tripped it. Any thread that may read the scope. */
bool sti_interrupt_has_tripped_elsewhere(const struct sti_scope *scope);

/* Whether the scope or one around it is tripped. */
bool sti_interrupt_is_tripped(const struct sti_scope *innermost);

/* Deliver an interrupt if one is due and this is a place for it. In STINT_JUMP: run the innermost scope's guards,
 * resume in the call that opened it, do not return. In STINT_UNWIND: the same frame by frame. In STINT_FAIL: return
 * true; the caller refuses its allocation, if it makes one. False: it has to wait. */
bool sti_interrupt_deliver(struct sti_thread *thread);

/* The same in an allocation. Code that has had to wait for a frame is not walked again before it has allocated more: 1
 * KiB at first, and twice as much each time, up to 16 KiB. nothrow_call: where the code goes on, if it has called what
 * its compiler may know to throw nothing, as malloc (unwind.h); otherwise NULL. */
bool sti_interrupt_deliver_allocating(struct sti_thread *thread, const void *nothrow_call);

/* The same in a signal handler that found the thread in code of the task's own, and has stopped it there; looks
 * first. Whether there is an interrupt, which has to wait or has only been told. */
struct sti_registers;
bool sti_interrupt_preempt(struct sti_thread *thread, const struct sti_registers *stopped);

/* The same in the handler of a fault at the end of the thread's stack (stack.h), where the code was stopped with that
 * signal mask. The scope is tripped that has used the stack up. Returns if the code cannot be left; is_last: then it
 * cannot go on either, so a task in STINT_FAIL is left, too, and one in STINT_UNWIND by a jump. */
void sti_interrupt_at_stack_end(struct sti_thread *thread, const struct sti_registers *stopped, bool is_last,
                                const sigset_t *mask);

void sti_interrupt_leave_near_stack_end(struct sti_thread *thread);

/* To be called where a function of ours begins that a recursion may go through, and that is no sample point, or one at
 * which a task in STINT_UNWIND may have to wait: its frames may be where the stack ends each time, and there no task is
 * left. With half of the yellow zone in use the task is left here, as at the zone's end; otherwise this returns. */
static inline void sti_interrupt_near_stack_end(void)
{
    if (__builtin_expect(sti_thread_metered != NULL, 0))
        sti_interrupt_leave_near_stack_end(sti_thread_metered);
}

/* The interrupt of the scope, or of scopes around it, has to wait, and so many bytes are to be allocated. False: the
 * grace of one of those is exhausted. Each draws on its own for all that happens inside it: a nest of scopes has no
 * more than one. */
bool sti_interrupt_draw_grace(struct sti_scope *innermost, uint64_t charge);

/* An allocation of a task whose grace is exhausted, and which has not been delivered its interrupt, is about to fail.
 * In STINT_UNWIND this may still be a place to end the task instead: see unwind.h. */
void sti_interrupt_last_resort(struct sti_thread *thread, const void *nothrow_call);

/* An interrupt of this scope, or of one around it, waits; nothing is masked or held meanwhile, but maybe a C++
 * exception or a catch block, of which a resume point can take care: the scope may be left where the process would end
 * otherwise. */
bool sti_interrupt_may_cut(struct sti_scope *innermost);

/* The innermost scope's code is about to be left where it stands, or told to stop: say so to those who are told. */
void sti_interrupt_note_leaving(struct sti_thread *thread, const struct sti_registers *stopped);

/* Run the guards and jump to the call that opened the innermost scope. Out of a signal's handler, which keeps that
 * signal blocked, with the mask that is to be; NULL: with what it is. */
_Noreturn void sti_interrupt_jump(struct sti_scope *scope, const sigset_t *mask);

/* The outermost scope that is tripped; the scope itself where none is. */
struct sti_scope *sti_interrupt_outermost_tripped(struct sti_scope *scope);

/* A sample point that allocates nothing: look, and deliver what is due. */
void sti_interrupt_point(struct sti_thread *thread);

#endif
