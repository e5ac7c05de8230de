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
 * what it calls and may inline it; the thread's forks are handed down as an argument, and not looked up each time; and
 * what other workers need is written into the thread's own stack of forks, so that the caller's variables stay in
 * registers. The form is that of Lace's tasks (van Dijk and van de Pol 2014). All that fork.h says of forks and joins
 * holds; both kinds may be mixed. */
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
 *   struct name_subtask    a fork that has not been joined: a variable of the caller's, to be copied nowhere;
 *   int name_fork(stint_here here, struct name_subtask *subtask, argument_type argument)
 *                          stint_fork: name(argument) may run from now on. 0.
 *   int name_join(stint_here here, struct name_subtask *subtask, result_type *result)
 *                          stint_join: *result is what it returned. 0, or an error of stint_join (not the function's
 *                          own: it has none); then *result is zeros.
 *
 * name_fork_from_ is name_fork's own: a call that the compiler inlines late, so that gcc first splits the short way of
 * the leaves off the function that forks. Inlined at once, as it must be where the caller's stack is asked for, it
 * hides that way: a fork then costs half as much again.
 *
 * Types whose bytes may be copied, of 48 bytes at most: more than one argument is a structure, and what is larger is
 * handed down by its address. The pointers must not be NULL. In C++, stint::Fork of stint.hpp takes any type. */
#define STINT_FORKABLE(name, result_type, argument_type)                                                               \
    struct name##_subtask {                                                                                            \
        size_t place_;                                                                                                 \
        argument_type argument_;                                                                                       \
    };                                                                                                                 \
    typedef char name##_fits_[STINT_FORK_FITS_(argument_type, result_type)];                                           \
    static result_type name(stint_here here, argument_type argument);                                                  \
    static inline int name##_call(void *payload, void **value)                                                         \
    {                                                                                                                  \
        argument_type argument;                                                                                        \
        (void)value;                                                                                                   \
        memcpy(&argument, payload, sizeof argument);                                                                   \
        result_type result = name(stint_here_current(), argument);                                                     \
        memcpy(payload, &result, sizeof result);                                                                       \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static const struct stint_fork_kind_ name##_kind = { 0, 0, name##_call };                                          \
    static inline void name##_fork_from_(stint_here here, struct name##_subtask *subtask, argument_type argument,      \
                                         void *frame)                                                                  \
    {                                                                                                                  \
        size_t depth = here->depth;                                                                                    \
        subtask->place_ = depth;                                                                                       \
        subtask->argument_ = argument;                                                                                 \
        if (__builtin_expect(stint_fork_reaches_(&here->limit, depth), 0)) {                                           \
            struct stint_fork_slot_ *slot = stint_fork_slot_slow_();                                                   \
            if (slot != NULL)                                                                                          \
                stint_fork_write_(slot, &name##_kind, frame, &argument, sizeof argument);                              \
            subtask->place_ = stint_fork_push_slow_(slot);                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        stint_fork_write_(stint_fork_at_(depth), &name##_kind, frame, &argument, sizeof argument);                     \
        stint_fork_push_(here, depth);                                                                                 \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) int name##_fork(stint_here here, struct name##_subtask *subtask,      \
                                                                 argument_type argument)                               \
    {                                                                                                                  \
        name##_fork_from_(here, subtask, argument, stint_fork_frame_());                                               \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static inline int name##_join(stint_here here, struct name##_subtask *subtask, result_type *result)                \
    {                                                                                                                  \
        size_t place = subtask->place_;                                                                                \
        subtask->place_ = STINT_FORK_JOINED_;                                                                          \
        if (__builtin_expect(!stint_fork_take_(here, place), 0)) {                                                     \
            struct stint_fork_result_ there = stint_join_typed_slow_(place, &name##_kind);                             \
            if (there.payload != NULL) {                                                                               \
                memcpy(result, there.payload, sizeof *result);                                                         \
                return there.error;                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        *result = name(here, subtask->argument_);                                                                      \
        return 0;                                                                                                      \
    }

STINT_END_DECLS

#endif
