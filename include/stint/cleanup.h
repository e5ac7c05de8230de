/* SPDX-License-Identifier: MIT
 *
 * pthread_cleanup_push and pthread_cleanup_pop whose handler runs in every mode of interrupts. In C++, and in C
 * compiled with -fexceptions, glibc makes them a destructor of the frame: its code and its table are those of any other
 * local variable with a destructor, which a jump (STINT_JUMP) passes by, and nothing tells at run time that there is a
 * handler. Included after <pthread.h>, or given to the compiler (-include stint/cleanup.h), this makes each a guard too
 * (stint/guard.h). Not a part of stint.h, as it takes the place of another header's macros.
 *
 * The handler runs once: behind pthread_cleanup_pop(1), after the block's other destructors; when an exception,
 * pthread_exit or pthread_cancel leaves the block, or when the task is interrupted, masked as a guard's release is. In
 * C without -fexceptions nothing changes: there an interrupt waits until the pop. Any thread, inside a scope or
 * outside. */
#ifndef STINT_CLEANUP_H
#define STINT_CLEANUP_H

#include <pthread.h>

#include <stint/guard.h>

#ifdef __EXCEPTIONS

/* Blocks nest, and all have the same name inside, as in the C library's header: no warning of that. */
#pragma GCC system_header

#undef pthread_cleanup_push
#undef pthread_cleanup_pop

/* clang-format off */
#define pthread_cleanup_push(routine, arg)                                                                             \
    do {                                                                                                               \
        __attribute__((cleanup(stint_guard_end_))) stint_guard stint_cleanup_ = { NULL, NULL, NULL, 0, 0 };            \
        stint_guard_push(&stint_cleanup_, (routine), (arg))

#define pthread_cleanup_pop(execute)                                                                                   \
        if ((execute) == 0)                                                                                            \
            stint_guard_pop(&stint_cleanup_, false);                                                                   \
    } while (0)
/* clang-format on */

#endif

#endif
