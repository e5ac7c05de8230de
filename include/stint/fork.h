/* SPDX-License-Identifier: MIT
 *
 * A task forks and joins subtasks, which run in parallel. They may run on other workers of the pool, and still belong
 * to the task. They share its budget, its token and its outcome, wherever they run: what they allocate is charged to
 * the task, and committed or rolled back with it; an interrupt of the task ends all of them.
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
 * The cost. A fork takes a few nanoseconds. It writes down what could be done, on a stack of the worker's own. The
 * oldest entries of that stack are shared only when another worker has nothing to do. A join calls what nobody has
 * taken like a function. So a program forks down to pieces of a microsecond, and the library chooses what is worth
 * moving. The ideas are those of Lace (van Dijk and van de Pol 2014), of lazy task creation (Mohr, Kranz and Halstead
 * 1990) and of leapfrogging (Wagner and Calder 1993): a worker that waits in a join helps with subtasks of the same
 * task, and never with anything else.
 *
 * The threads. Other workers run the forks of a task of a pool, and of its subtasks. A worker that becomes idle is
 * served at the next fork or join of the worker that has forks to give. Everywhere else a fork is allowed too, and runs
 * on its own thread, in its join: outside of a pool, in a scope that stint_run opened inside a task, while interrupts
 * are masked, and when thousands of forks are outstanding.
 *
 * Interrupts. An interrupt first settles the forks of the frames that it leaves. Those that nobody took are dropped,
 * the others are stopped and waited for, and only then are the frames left. docs/pool.md has the protocols. */
#ifndef STINT_FORK_H
#define STINT_FORK_H

#include <string.h>

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- Forks and joins ---------------------------------------------------------------------------------------------- */

/* A fork that has not been joined. It lies in the caller's frame, where it must stay until the join. Its fields are the
 * library's. */
typedef struct stint_subtask {
    stint_fn *fn_;
    void *arg_;
    size_t place_; /* among the thread's forks, or one of STINT_FORK_... */
} stint_subtask;

/* Fork fn(arg): from now until the join, any worker of the pool may run it. What it reads must have been written
 * before.
 *
 * Returns 0, or:
 *   EINVAL  subtask or fn is NULL */
static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg);

/* Join a fork: when this returns, the forked function has run, in this call or elsewhere. *value is what the function
 * left there, NULL unless it wrote a value; value may be NULL. Each fork is joined once, best the newest first; in
 * another order a join costs some nanoseconds more. The join of a fork that another worker runs is a sample point.
 *
 * A task, subtask or scope must join all that it has forked before it returns. Otherwise the rest is settled as at an
 * interrupt, and the task fails (STINT_REASON_FAILED, EINVAL), in a pool or outside. Outside of all scopes a fork that
 * is not joined never runs, and no error tells of it. Nor does one tell of a fork that only its own thread could run,
 * if the scope's code has left frames by longjmp since.
 *
 * Threads: the thread that forked, in the same task or subtask.
 *
 * Returns what the forked function returned, which concerns nobody but the caller; or:
 *   EINVAL     subtask is NULL, was joined before, or is not one of this thread's forks
 *   ECANCELED  the task is being interrupted, and the subtask did not come to its end. Code sees this only where the
 *              interrupt has to wait, and in STINT_FAIL
 *   ENOMEM, EAGAIN  another worker took the fork, and could not start it */
static inline int stint_join(stint_subtask *subtask, void **value);

/* Drop a fork that has not been joined, to leave a frame by another way than the join. If no worker has taken the fork,
 * it does not run; otherwise the call waits for its end, and forgets what it returned. NULL, and a fork that was joined
 * or dropped, do nothing. The call is no sample point.
 *
 * Threads: the thread that forked, in the same task or subtask. */
STINT_API void stint_fork_drop(stint_subtask *subtask);

STINT_END_DECLS

#include <stint/detail/fork.h>

STINT_BEGIN_DECLS

/* --- Forks of functions with types of their own ------------------------------------------------------------------- */

/* STINT_FORKABLE makes forks for one function, for recursions whose pieces take a few nanoseconds. A join of a fork
 * that no worker has taken calls the function itself, and not through a pointer, so the compiler sees what it calls and
 * may inline it. The thread's forks are handed down as an argument, and not looked up each time. What other workers
 * need is written into the thread's own stack of forks, so the caller's variables stay in registers. The form is that
 * of Lace's tasks (van Dijk and van de Pol 2014). All that is said of stint_fork and stint_join holds here too, and
 * both kinds may be mixed. */

/* The forks of the thread that a function runs on. A function of STINT_FORKABLE has them as its first argument, and
 * hands them on as they came. They are valid on this thread, in this task or subtask. */
typedef struct stint_forks_ *stint_here;

/* Find the forks of the calling thread, for the first call of a function of STINT_FORKABLE.
 *
 * Returns the forks; never NULL. */
static inline stint_here stint_here_current(void)
{
    return stint_thread_forks_;
}

/* Declare a function that can be forked, and define what forks and joins it. The macro stands at file level, in front
 * of the function's definition:
 *
 *     #include <stdio.h>
 *     #include <stint/fork.h>
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
 *     int main(void)
 *     {
 *         printf("%ld\n", fib(stint_here_current(), 20));
 *         return 0;
 *     }
 *
 * For STINT_FORKABLE(fib, long, int) these are declared and defined:
 *
 *   static long fib(stint_here here, int argument)
 *       the function, declared
 *   struct fib_subtask
 *       a fork that has not been joined: a variable of the caller's, which must not be copied
 *   int fib_fork(stint_here here, struct fib_subtask *subtask, int argument)
 *       the fork: fib(argument) may run from now on. It returns 0
 *   int fib_join(stint_here here, struct fib_subtask *subtask, long *result)
 *       the join: *result is what fib returned. It returns 0, or an error of stint_join (not the function's own, which
 *       has none); *result is then zeros
 *
 * The types are such as may be copied byte by byte, of 48 bytes at most. More than one argument is a structure, and
 * what is larger is handed down by its address. The pointers must not be NULL. In C++, stint::Fork of stint.hpp takes
 * any type. */
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

/* Loops, reductions and sorting fork and join inside one task. They are bounded like the task and interrupted with it,
 * and what they allocate is the task's. Where forks run only in their joins, all of a loop runs on the calling thread.
 *
 * Splitting is lazy, after Tzannes and others (2010): a thread works through a range from its beginning, and halves the
 * range only when a worker of the pool has asked for work. So a range that no other worker has time for costs hardly
 * more than a loop. Sorting is a merge sort whose merges are split as well, after Cormen and others (Introduction to
 * Algorithms). */

/* Do what is to be done for begin <= i < end, a range that is not empty: the body of stint_for.
 *
 * Returns 0, or an error, which ends the whole loop. */
typedef int stint_range_fn(size_t begin, size_t end, void *arg);

/* Call a function for all of a range, piece by piece. fn(first, behind, arg) gets pieces that together are the range
 * from begin to end (exclusive), each index once, in no particular order.
 *
 * grain is the number of indices that a call gets, fewer at the end of the range. A good grain makes a call take some
 * microseconds; the pieces are then always the same. With 0 the library chooses, beginning with 1 and doubling up to a
 * 512th of the range; the pieces then depend on which workers have time.
 *
 * Returns 0, also for an empty range; or what a call returned that was not 0. Of several such calls it is the one of
 * the lowest index, and pieces that have not begun by then are left out. Or:
 *   EINVAL     fn is NULL
 *   ECANCELED  as stint_join */
STINT_API int stint_for(size_t begin, size_t end, size_t grain, stint_range_fn *fn, void *arg);

/* Add what belongs to begin <= i < end, a range that is not empty, to the accumulator: the body of stint_reduce.
 *
 * Returns 0, or an error, which ends the whole reduction. */
typedef int stint_accumulate_fn(size_t begin, size_t end, void *accumulator, void *arg);

/* Add to an accumulator what another one got from the range right behind. The operation must be associative, and need
 * not be commutative. How often it is called, and on what pieces, depends on which workers have time; so floating-point
 * sums may differ in their last digits. */
typedef void stint_combine_fn(void *accumulator, const void *behind, void *arg);

/* How to reduce a range to one value, in an accumulator of size bytes. */
typedef struct stint_reduction {
    size_t size;                     /* bytes of an accumulator */
    const void *neutral;             /* the bytes that an accumulator begins with; NULL: zeros */
    stint_accumulate_fn *accumulate; /* adds a piece of the range to an accumulator */
    stint_combine_fn *combine;       /* adds an accumulator to the one of the piece before it */
} stint_reduction;

/* Reduce a range to one value, in *result, which is overwritten. grain is as for stint_for. Accumulators of more than
 * 256 bytes are allocated, one for each time that a range is halved; where there is no memory for one, the range is not
 * halved.
 *
 * Returns 0, or what accumulate returned, as for stint_for; *result is then of no use. Or:
 *   EINVAL     reduction, one of its functions, or result is NULL
 *   ECANCELED  as stint_join */
STINT_API int stint_reduce(size_t begin, size_t end, size_t grain, const stint_reduction *reduction, void *arg,
                           void *result);

/* Compare two elements for stint_sort.
 *
 * Returns less than 0 if a belongs before b, 0 if they are equal, and more than 0 if a belongs behind b. */
typedef int stint_compare_fn(const void *a, const void *b, void *arg);

/* Sort count elements of size bytes, stably. The call allocates as much memory as the elements take, until it returns.
 * An interrupt leaves the elements in any order, some twice and some not at all.
 *
 * Returns 0, or:
 *   EINVAL     compare is NULL, size is 0, or base is NULL and count is not 0
 *   ENOMEM     there is no memory, and nothing was moved
 *   ECANCELED  as stint_join; the elements are left as by an interrupt */
STINT_API int stint_sort(void *base, size_t count, size_t size, stint_compare_fn *compare, void *arg);

STINT_END_DECLS

#endif
