/* SPDX-License-Identifier: MIT
 *
 * Forks of functions with types of their own: what stint/fork.h does, for recursions whose pieces are a few
 * nanoseconds.
 *
 *     STINT_FORKABLE(fib, long, int)
 *
 *     static long fib(stint_here here, int n)
 *     {
 *         struct fib_subtask left;
 *         long sum;
 *         if (n < 2)
 *             return n;
 *         fib_fork(here, &left, n - 1);
 *         long right = fib(here, n - 2);
 *         if (fib_join(here, &left, &sum) != 0)
 *             return 0;
 *         return sum + right;
 *     }
 *
 *     long result = fib(stint_here_current(), 30);
 *
 * A join of a fork that no worker has taken calls the function itself, not through a pointer, so that the compiler sees
 * what it calls and may inline it; and the thread's forks are handed down as an argument, and not looked up each time.
 * The form is that of Lace's tasks (van Dijk and van de Pol 2014). All that fork.h says of forks and joins holds; both
 * kinds may be mixed. */
#ifndef STINT_FORK_TYPED_H
#define STINT_FORK_TYPED_H

#include <stint/fork.h>
#include <string.h>

STINT_BEGIN_DECLS

/* The forks of the thread that a function runs on: its first argument, to be handed on as it came. Good on this thread,
 * in this task or subtask. */
typedef struct stint_forks_ *stint_here;

/* The forks of the calling thread. Any thread. */
static inline stint_here stint_here_current(void)
{
    return stint_thread_forks_;
}

/* Declares the static function
 *
 *     result_type name(stint_here here, argument_type argument);
 *
 * which is to be defined behind it, and defines
 *
 *   struct name_subtask    a fork that has not been joined; in the caller's frame, as a stint_subtask;
 *   int name_fork(stint_here here, struct name_subtask *subtask, argument_type argument)
 *                          stint_fork: name(argument) may run from now on. 0.
 *   int name_join(stint_here here, struct name_subtask *subtask, result_type *result)
 *                          stint_join: *result is what it returned. 0, or an error of stint_join (not the function's
 *                          own: it has none); then *result is zeros.
 *
 * Types whose bytes may be copied: more than one argument is a structure. The pointers must not be NULL. In C++,
 * stint::Fork of stint.hpp takes any type. */
#define STINT_FORKABLE(name, result_type, argument_type)                                                               \
    struct name##_subtask {                                                                                            \
        stint_subtask subtask_;                                                                                        \
        argument_type argument_;                                                                                       \
        result_type result_;                                                                                           \
    };                                                                                                                 \
    static result_type name(stint_here here, argument_type argument);                                                  \
    static inline int name##_call(void *of_subtask, void **value)                                                      \
    {                                                                                                                  \
        struct name##_subtask *subtask = (struct name##_subtask *)of_subtask;                                          \
        (void)value;                                                                                                   \
        subtask->result_ = name(stint_here_current(), subtask->argument_);                                             \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static inline int name##_fork(stint_here here, struct name##_subtask *subtask, argument_type argument)             \
    {                                                                                                                  \
        subtask->argument_ = argument;                                                                                 \
        return stint_fork_here_(here, &subtask->subtask_, name##_call, subtask);                                       \
    }                                                                                                                  \
    static inline int name##_join(stint_here here, struct name##_subtask *subtask, result_type *result)                \
    {                                                                                                                  \
        if (__builtin_expect(stint_take_here_(here, &subtask->subtask_), 1)) {                                         \
            *result = name(here, subtask->argument_);                                                                  \
            return 0;                                                                                                  \
        }                                                                                                              \
        int error = stint_join_slow_(&subtask->subtask_, NULL);                                                        \
        if (error != 0)                                                                                                \
            memset((void *)&subtask->result_, 0, sizeof subtask->result_);                                             \
        *result = subtask->result_;                                                                                    \
        return error;                                                                                                  \
    }

STINT_END_DECLS

#endif
