/* SPDX-License-Identifier: MIT
 *
 * The boundary that no exception passes, and what is read from exceptions that come to it. Any thread. */
#ifndef STI_ALLOC_INTERRUPT_BOUNDARY_H
#define STI_ALLOC_INTERRUPT_BOUNDARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>
#include <unwind.h>

/* --- The boundary that no exception passes: around the function of a scope, of a stolen subtask, and each callback of
 * the application's. An exception of any language that comes to it is caught here, by the unwinder's own rules: no
 * handler further out is asked, and no runtime has to end the process because there is none. Any thread.
 *
 * It costs a call and a few instructions when nothing is thrown. */

struct sti_cxx_state;
struct sti_scope;

/* A callback of the application's that the thread is in. On the stack of sti_boundary_callback. */
struct sti_callback {
    uintptr_t frame; /* frames below it are the callback's */
    struct sti_callback *outer;
    const struct sti_scope *scope; /* that the thread was in when it was called */
    struct sti_thrown *thrown;
};

extern _Thread_local struct sti_callback *sti_callback_innermost __attribute__((visibility("hidden")));

/* In place of an exception: what the boundary is around was left by longjmp, or by an end of the thread that is
 * none. */
extern struct _Unwind_Exception sti_boundary_left __attribute__((visibility("hidden")));

/* What has come to a boundary. */
struct sti_thrown {
    struct _Unwind_Exception *exception; /* NULL: nothing */

    /* Whose frames are left: the forks that they made are settled before any of them goes. NULL: a callback's. */
    struct sti_scope *scope;
    unsigned runtime; /* that counted it as on its way */

    /* The end of the thread (pthread_exit, pthread_cancel) is let pass. Otherwise it ends here, and the thread goes
     * on. */
    bool lets_end;
};

/* What is called; which of the parameters it has, and its result, are its own affair. */
typedef int sti_boundary_fn(void *a, void *b, void *c);

/* Call fn(a, b, c) and return what it returns. When it throws, *thrown has the exception, nothing on this thread counts
 * it as on its way any more, and the result means nothing. thrown->exception has to be NULL before. */
int sti_boundary_call(void *a, void *b, void *c, sti_boundary_fn *fn, struct sti_thrown *thrown);

/* What is called returns to here: it is in every walk of the stack that has come from inside. */
extern const char sti_boundary_landing[] __attribute__((visibility("hidden")));

/* The same with a stint_fn, in this scope. */
static inline int sti_boundary_run(struct sti_scope *scope, stint_fn *fn, void *arg, void **value,
                                   struct sti_thrown *thrown)
{
    sti_boundary_fn *called;
    __builtin_memcpy(&called, &fn, sizeof called);
    thrown->exception = NULL;
    thrown->scope = scope;
    thrown->lets_end = false;
    return sti_boundary_call(arg, value, NULL, called, thrown);
}

static inline bool sti_boundary_was_left(const struct sti_thrown *thrown)
{
    return thrown->exception == &sti_boundary_left;
}

/* The callback is about to be left by a jump: it ends here instead, as if it had thrown sti_boundary_left. */
_Noreturn void sti_boundary_cut(const struct sti_callback *callback);

/* The scope's function has thrown: nothing counts the exception as on its way any more. */
void sti_boundary_note(struct sti_scope *scope, struct sti_thrown *thrown);

/* Its frames were left by the end of a thread that goes on. The task fails; returns the error. */
int sti_boundary_end_left(struct sti_scope *scope);

/* And the scope fails by it. Its message is written to the outcome, the exception is gone. Returns the error. */
int sti_boundary_fail(struct sti_scope *scope, struct sti_thrown *thrown, stint_outcome *outcome);

/* Throw it on, here. Does not return where a boundary lies around. */
void sti_boundary_rethrow(const struct sti_thrown *thrown);

/* Let it go. */
void sti_boundary_drop(struct sti_thrown *thrown);

/* Call a callback of the application's, whose exceptions are told to the report and then forgotten: boundary.h. */
void sti_boundary_callback(const char *where, void *a, void *b, void *c, sti_boundary_fn *fn);

/* As where: the end of the thread is let pass, since nothing of ours is half done around a release. */
extern const char sti_boundary_release[] __attribute__((visibility("hidden")));

/* With the function as whatever type it has. */
#define STI_BOUNDARY_CALLBACK(where, function, a, b, c)                                                                \
    do {                                                                                                               \
        sti_boundary_fn *called;                                                                                       \
        _Static_assert(sizeof(function) == sizeof called, "a pointer to a function");                                  \
        __builtin_memcpy(&called, &(function), sizeof called);                                                         \
        sti_boundary_callback(where, (void *)(uintptr_t)(a), (void *)(uintptr_t)(b), (void *)(uintptr_t)(c), called);  \
    } while (0)

/* --- What a C++ exception says, without the runtime that it was thrown by. Any thread, on which it is caught. */

struct _Unwind_Exception;

/* Write what() of a std::exception into text, or else the type's name; cut to the size. text may be NULL. The
 * application's what() runs. Returns the error that it stands for: ENOMEM for std::bad_alloc, otherwise -1. */
int sti_exception_describe(const struct _Unwind_Exception *exception, char *text, size_t size);

#endif
