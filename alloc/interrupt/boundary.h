/* SPDX-License-Identifier: MIT
 *
 * The boundary around the function of a scope, of a stolen subtask, and each callback of the application's: a function
 * there returns, or is left by an interrupt. Any thread.
 *
 *   an exception that comes to a boundary   ends the program, by std::terminate, as one out of a std::thread's function
 *   the end of the thread (pthread_exit,    passes the scope of a stint_run, which is rolled back, and a guard's
 *   thrd_exit, pthread_cancel)              release; otherwise it ends the program. A cancellation waits for the end of
 *                                           a callback
 *   a longjmp                               abandoned_frames.h
 *
 * When a boundary hears of it, the frames inside have gone already. It costs a call and a few instructions. */
#ifndef STI_ALLOC_INTERRUPT_BOUNDARY_H
#define STI_ALLOC_INTERRUPT_BOUNDARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "alloc/platform/scope_state.h"

/* Call fn(arg, value), the scope's function. Thread of the scope. */
int sti_boundary_run(struct sti_scope *scope, stint_fn *fn, void *arg, void **value);

/* What a callback is called as; which of the parameters it has, and its result, are its own affair. */
typedef int sti_boundary_fn(void *a, void *b, void *c);

void sti_boundary_callback(void *a, void *b, void *c, sti_boundary_fn *fn);

/* The same for the release of a guard: nothing of this library is half done around it. */
void sti_boundary_release(void (*release)(void *arg), void *arg);

/* The calling thread ends, and the frames of all boundaries that it is inside of are still there. */
void sti_boundary_leave_all(void);

/* It ends, in one of its destructors. musl has unwound nothing, so that is so. glibc has left every boundary by then,
 * but those below another stack that the thread has ended on. Where the thread's first frame has not heard of these
 * (_pthread_cleanup_push), their frames have gone without a word, so nothing of them is read, and they are
 * forgotten. */
void sti_boundary_end_thread(void);

/* With the function as whatever type it has. */
#define STI_BOUNDARY_CALLBACK(function, a, b, c)                                                                       \
    do {                                                                                                               \
        sti_boundary_fn *called;                                                                                       \
        _Static_assert(sizeof(function) == sizeof called, "a pointer to a function");                                  \
        __builtin_memcpy(&called, &(function), sizeof called);                                                         \
        sti_boundary_callback((void *)(uintptr_t)(a), (void *)(uintptr_t)(b), (void *)(uintptr_t)(c), called);         \
    } while (0)

/* The innermost callback that the thread is in; NULL: none. It lies in the frame of its boundary. */
struct sti_callback {
    struct sti_callback *outer;
    bool is_release;
    struct sti_cxx_state cxx; /* before it was called */
};

extern _Thread_local struct sti_callback *sti_callback_innermost __attribute__((visibility("hidden")));

/* A boundary was left, in this way: end the program. */
_Noreturn void sti_boundary_end_program(const struct sti_scope *scope, const char *how);

/* The code that calls what lies inside a boundary has a section of its own, so that each walk of a stack shows where
 * one is. AddressSanitizer stays out of this code: where the end of a thread takes frames, the sanitizer would look at
 * marks of frames that have gone. */
#define STI_BOUNDARY_CODE __attribute__((noinline, section("sti_boundary"), no_sanitize_address))

extern const char sti_boundary_code_begin[] __asm__("__start_sti_boundary") __attribute__((visibility("hidden")));
extern const char sti_boundary_code_end[] __asm__("__stop_sti_boundary") __attribute__((visibility("hidden")));

/* Does a function inside a boundary return to this address? */
static inline bool sti_boundary_has(const void *return_address)
{
    return (const char *)return_address > sti_boundary_code_begin &&
           (const char *)return_address <= sti_boundary_code_end;
}

/* Code that calls functions of a task's, is no boundary, and has nothing of this library's half done meanwhile, has a
 * section of its own too. Whatever else of this library is the caller of other code may not be left with that: it calls
 * functions of libc's, which a program may have replaced by its own, or what an instrumented build makes it call. */
#define STI_CALLING_CODE __attribute__((noinline, section("sti_calling")))

extern const char sti_calling_code_begin[] __asm__("__start_sti_calling") __attribute__((visibility("hidden")));
extern const char sti_calling_code_end[] __asm__("__stop_sti_calling") __attribute__((visibility("hidden")));

/* May what returns to this address, which is in this library, be left? */
static inline bool sti_boundary_calls_tasks(const void *return_address)
{
    return sti_boundary_has(return_address) || ((const char *)return_address > sti_calling_code_begin &&
                                                (const char *)return_address <= sti_calling_code_end);
}

#endif
