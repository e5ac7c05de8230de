/* SPDX-License-Identifier: MIT
 *
 * The end of a worker's stack: a task that comes to it is stopped, where it may be left. Calling thread only, but for
 * sti_stack_set(). */
#ifndef STI_ALLOC_INTERRUPT_STACK_H
#define STI_ALLOC_INTERRUPT_STACK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Below what a worker's tasks may use lie a yellow zone and a guard, which nobody may touch.
 *
 *   | guard | yellow | the stack ...... |  higher addresses
 *           |<-- of libc, as a whole -->|
 *
 * The first touch of the yellow zone is a fault, whose handler runs on a stack of its own, the thread's alternate one.
 * It trips the scope and opens the zone. Then the task is left from the handler, if the verdict (safe.h) is that it may
 * be; otherwise it goes on in the zone, and the next sample point finds the scope tripped. A touch of the guard asks
 * for the verdict once more; if the task may not be left then either, the fault is the program's, as every other one
 * is.
 *
 * The alternate stack is for all that runs in handlers there: guards, and the handler of the program that was set when
 * the newest pool was made. Other threads have no such zone: where their stacks end is for the system to say. */

#define STI_STACK_YELLOW ((size_t)64 << 10)
#define STI_STACK_GUARD ((size_t)64 << 10)
#define STI_STACK_ALTERNATE ((size_t)64 << 10)

/* The least that a worker can do with. */
#define STI_STACK_MIN ((size_t)64 << 10)

/* Attributes for a worker's thread whose tasks have a stack of so many bytes; 0: as many as the system gives a thread.
 * The handler is set, where another one is. 0, or an errno value. Any thread. */
int sti_stack_set(pthread_attr_t *attributes, size_t size);

/* The calling thread has been started with such attributes. */
void sti_stack_begin(void);

/* It ends. */
void sti_stack_end(void);

/* A task has ended, or a scope was left: close the yellow zone again, unless a frame stands in it. */
void sti_stack_settle(void);

/* Half of the yellow zone is in use by the caller. */
bool sti_stack_is_nearly_exhausted(void);

/* Give the pages of the stack back to the system that lie well below the caller's frame: a task that went deep left
 * them. */
void sti_stack_give_back(void);

/* The lowest address that may be read, and the upper end of the stack; 0: this thread is no worker. */
uintptr_t sti_stack_lowest(void);
uintptr_t sti_stack_highest(void);

#endif
