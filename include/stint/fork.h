/* SPDX-License-Identifier: MIT
 *
 * Fork and join inside one task: subtasks that may run on other workers of the pool and still belong to the task. They
 * share its budget, its token and its outcome, wherever they run: what they allocate is charged to the task, and
 * committed or rolled back with it; an interrupt of the task ends all of them.
 *
 *     #include <stdio.h>
 *     #include <stint/fork.h>
 *
 *     static int sum(void *range, void **value)
 *     {
 *         (void)value;
 *         long *first = range;
 *         for (int i = 1; i < 500; i++)
 *             first[0] += first[i];
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         static long numbers[1000] = { 1, 2, 3 };
 *         stint_subtask left;
 *         stint_fork(&left, sum, numbers); // another worker may take it
 *         sum(numbers + 500, NULL);
 *         if (stint_join(&left, NULL) != 0)
 *             return 1;
 *         printf("%ld\n", numbers[0] + numbers[500]);
 *         return 0;
 *     }
 *
 * A fork costs a few nanoseconds: it writes down what could be done, on a stack of the worker's own. Only when another
 * worker has nothing to do, the oldest entries of that stack are shared; what nobody has taken is called by the join
 * like a function. So fork down to pieces of a microsecond, and let the library choose what is worth moving. After
 * Lace (van Dijk and van de Pol 2014), lazy task creation (Mohr, Kranz and Halstead 1990) and leapfrogging (Wagner and
 * Calder 1993): a worker that waits in a join helps with subtasks of the same task, and never with anything else.
 *
 * What runs on other workers: forks of a task of a pool, and of its subtasks. Everywhere else a fork is good too, and
 * runs on its own thread, in its join: outside of a pool, in a scope that stint_run opened inside a task, while
 * interrupts are masked, and when thousands of forks are outstanding. A worker that becomes idle is served at the next
 * fork or join of the one that has forks to give.
 *
 * An interrupt first settles the forks of the frames it leaves: those that nobody took are dropped, the others are
 * stopped and waited for; only then are the frames left. docs/pool.md has the protocols. */
#ifndef STINT_FORK_H
#define STINT_FORK_H

#include <string.h>

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* A fork that has not been joined, in the caller's frame, where it must stay until the join. Its fields are the
 * library's. */
typedef struct stint_subtask {
    stint_fn *fn_;
    void *arg_;
    size_t place_; /* among the thread's forks, or one of STINT_FORK_... */
} stint_subtask;

/* Fork fn(arg): from now until the join, any worker of the pool may run it. What it reads must have been written
 * before.
 *
 * 0; EINVAL: subtask or fn is NULL. Any thread, in a task or outside. */
static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg);

/* Join the fork: when this returns, it has run, in this call or elsewhere. *value is what it left there (NULL unless it
 * wrote one); value may be NULL. To be called once for each fork, by whoever forked it (on the same thread, in the same
 * task or subtask), best newest first; in another order it costs some nanoseconds more.
 *
 * The function's own code, which concerns nobody but the caller; EINVAL: subtask is NULL, was joined before, or is not
 * one of this thread's forks; ECANCELED: the task is being interrupted, and the subtask did not come to its end (seen
 * only where the interrupt has to wait, and in STINT_FAIL); ENOMEM, EAGAIN: a worker took it, and could not start it.
 *
 * A join of a fork that another worker runs is a sample point. A task, subtask or scope must join all it has forked
 * before it returns: otherwise the rest is settled as at an interrupt, and the task has failed (STINT_REASON_FAILED,
 * EINVAL), in a pool or outside. Outside of all scopes a fork that is not joined is never run, and no error tells of
 * it; nor of one that only its own thread could run, if the scope's code has left frames by longjmp since. */
static inline int stint_join(stint_subtask *subtask, void **value);

/* Drop a fork that has not been joined: if no worker has taken it, it is not run; otherwise wait for its end. What it
 * returned is forgotten. For leaving a frame by another way than the join. Does nothing for NULL, and for a
 * fork that was joined or dropped. No sample point. On the thread that forked. */
STINT_API void stint_fork_drop(stint_subtask *subtask);

STINT_END_DECLS

#include <stint/detail/fork.h>

STINT_BEGIN_DECLS

/* --- Forks of functions with types of their own ------------------------------------------------------------------- */

/* Forks of functions with types of their own: what stint/fork.h does, for recursions whose pieces are a few
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
 * registers. The form is that of Lace's tasks (van Dijk and van de Pol 2014). All that is said above of forks and joins
 * holds; both kinds may be mixed. */

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

/* --- Loops, reductions, sorting ----------------------------------------------------------------------------------- */

/* Loops, reductions and sorting  by fork and join, inside one task: bounded like it, interrupted with it, and
 * what they allocate is the task's. Any thread; where forks run only in their joins, all of a loop runs on the
 * calling thread.
 *
 * Splitting is lazy, after Tzannes and others (2010): a range is worked through from its beginning, and halved only
 * when a worker of the pool has asked for work. So a range that no other worker has time for costs hardly more than a
 * loop. Sorting is a merge sort whose merges are split as well, after Cormen and others (Introduction to
 * Algorithms). */

/* Do what is to be done for begin <= i < end, which is not empty. 0, or an error that ends the whole loop. */
typedef int stint_range_fn(size_t begin, size_t end, void *arg);

/* Call fn for pieces that together are the range, each index once, in no particular order.
 *
 * grain is the number of indices that a call gets (fewer at the end of the range): choose it so that a call takes some
 * microseconds; the pieces are then always the same. 0: the library chooses, beginning with 1 and doubling up to a
 * 512th of the range; the pieces then depend on which workers have time.
 *
 * 0, also for an empty range; what a call returned that was not 0 (of several the one of the lowest index; pieces that
 * have not begun by then are left out); EINVAL: fn is NULL; ECANCELED: as stint_join. */
STINT_API int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg);

/* Add what belongs to begin <= i < end, which is not empty, to the accumulator. 0, or an error that ends the whole
 * reduction. */
typedef int stint_accumulate_fn(size_t begin, size_t end, void *accumulator, void *arg);

/* Add to an accumulator what another one got from the range right behind. Must be associative, need not be commutative.
 * How often it is called, and on what pieces, depends on which workers have time: floating-point sums may differ in
 * their last digits. */
typedef void stint_combine_fn(void *accumulator, const void *behind, void *arg);

/* How to reduce a range to one value, in an accumulator of so many bytes. */
typedef struct stint_reduction {
    size_t size;
    const void *neutral; /* the bytes that an accumulator begins with; NULL: zeros */
    stint_accumulate_fn *accumulate;
    stint_combine_fn *combine;
} stint_reduction;

/* Reduce the range into *result, which is overwritten. grain as for stint_for. Accumulators of more than 256 bytes are
 * allocated, one for each time that a range is halved; where there is no memory for one, the range is not halved.
 *
 * 0; what accumulate returned, as for stint_for (*result is then of no use); EINVAL: reduction, one of its functions or
 * result is NULL; ECANCELED: as stint_join. */
STINT_API int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *arg,
                           void *result);

/* Less than 0 if a belongs before b, 0 if they are equal, more than 0 if a belongs behind b. */
typedef int stint_compare_fn(const void *a, const void *b, void *arg);

/* Sort count elements of size bytes, stably. Allocates as much memory as the elements take, until it returns. An
 * interrupt leaves the elements in any order, some twice and some not at all.
 *
 * 0; EINVAL: compare is NULL, size is 0, or base is NULL and count is not 0; ENOMEM (nothing was moved); ECANCELED: as
 * stint_join, and the elements are left as by an interrupt. */
STINT_API int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg);

STINT_END_DECLS

#endif
