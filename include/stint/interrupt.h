/* SPDX-License-Identifier: MIT
 *
 * A task decides where and how interrupts stop it. Guards release what is not memory. Masks make an interrupt
 * wait. Lists of modules say which code may be left in its midst, and hooks stop code that may not. A mutex tells of a
 * holder that was interrupted.
 *
 *     #include <fcntl.h>
 *     #include <unistd.h>
 *     #include <stint/interrupt.h>
 *     #include <stint/task.h>
 *
 *     static void close_file(void *fd)
 *     {
 *         close(*(int *)fd);
 *     }
 *
 *     static int read_file(void *path, void **value)
 *     {
 *         (void)value;
 *         stint_mask(); // no interrupt between these two
 *         int fd = open(path, O_RDONLY);
 *         STINT_GUARD(close_file, &fd); // runs at the end of the block, and at an interrupt
 *         stint_unmask();
 *         for (int i = 0; i < 1000; i++)
 *             stint_checkpoint(); // an interrupt may be delivered here
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         char path[] = "/dev/null";
 *         stint_outcome outcome;
 *         return stint_run(read_file, path, NULL, &outcome) != 0 || outcome.status != STINT_OK;
 *     }
 *
 * When an interrupt is delivered. An interrupt is due when a limit is passed or a token is set. It is delivered at a
 * sample point of the task. These are sample points:
 *   - an allocation, and a call that makes a record, such as stint_submit;
 *   - stint_checkpoint;
 *   - the end of a mask, of a guard's release, of a blocking region, and of an inner stint_run;
 *   - a wait for a future, for a slot in another pool's queue, for a stint_mutex, or for the end of another pool, when
 *     the interrupt comes while the task sleeps in it; and the end of a wait for a future;
 *   - the join of a fork that another worker took.
 *
 * A preemptible task, and one that has come to the end of its worker's stack (task.h), may also be stopped at any other
 * instruction. In each case an interrupt waits
 *   - while the task is masked;
 *   - while code that may not be left in its midst has a frame between here and the scope. The program's own code may
 *     be left, and so may the modules that stint_module_allow names and some libraries that have been tried
 *     (docs/interrupts.md). All other code may not: libc (a comparator under qsort), the loader (a constructor under
 *     dlopen), the C++ runtime, that of OpenMP (a parallel region), any other library, and code that was generated;
 *   - while the task's code holds a mutex, rwlock or spinlock (pthread's, C11's, C++'s) or a locked FILE that it took
 *     in the scope; is in pthread_once or call_once; is between pthread_cleanup_push and pop (in C without
 *     -fexceptions; elsewhere that is a destructor: docs/cpp.md); is in a C++ static initialiser; or is in a catch
 *     block;
 *   - while a C++ exception is on its way to a catch block.
 *
 * While an interrupt waits, allocations succeed up to the scope's grace, and then fail with ENOMEM. The interrupt
 * follows at the first safe point. The library never leaves the code of a STINT_FAIL task; it refuses the task's
 * allocations. Only a mask, or an allocation that libc or the loader makes for itself, delays the refusal.
 *
 * What stint does not see. A lock that is made by hand, semaphores included, and the constructor of a thread_local
 * variable are invisible: code masks both. What libc allocates for itself lies in no heap that is destroyed, so a
 * rollback leaves libc whole. A FILE, a DIR and a regex_t that the task left open are closed at a rollback, unless a
 * variable points to them (docs/interrupts.md). */
#ifndef STINT_INTERRUPT_H
#define STINT_INTERRUPT_H

#include <pthread.h>

#include <stint/detail/api.h>

STINT_BEGIN_DECLS

/* --- Sample points and masks -------------------------------------------------------------------------------------- */

/* These functions concern the innermost scope of the calling thread, and do nothing outside a scope. The idea of masks
 * is that of Haskell's asynchronous exceptions (Marlow and others 2001). */

/* Make a sample point, in a loop that does not allocate. The call looks at tokens and the deadline, and delivers an
 * interrupt that is due. In STINT_JUMP the call may then not return. In STINT_FAIL it returns, and stint_is_interrupted
 * tells. It costs a few nanoseconds. */
STINT_API void stint_checkpoint(void);

/* Defer interrupts until the matching stint_unmask. Masks nest. The outermost stint_unmask is a sample point, which
 * delivers an interrupt that is due. A task that returns masked fails, with EINVAL. */
STINT_API void stint_mask(void);
STINT_API void stint_unmask(void);

/* Tell whether the innermost scope is being interrupted: it, or a scope around it, has been found cancelled or past a
 * limit, and will end. The call does not look at tokens or clocks. Code that wants to know calls stint_checkpoint
 * first, as the progress callback of a library would.
 *
 * Returns true in guards, and in a STINT_FAIL task from the moment at which the interrupt was noticed; false outside a
 * scope. */
STINT_API bool stint_is_interrupted(void);

/* Close the scope to interrupts, as the last call of its function. It is for a value that owns something besides
 * memory, such as a descriptor. The call looks at the limits, the token and the clock once more. It is not for
 * subtasks.
 *
 * Returns true, also outside of scopes: nothing can interrupt the scope any more, and it is Ok if the function returns
 * 0, which it must do soon. Returns false if the scope has been interrupted and will be rolled back; the function then
 * gives back what the value owns. */
STINT_API bool stint_finish(void);

/* What an interrupt has to wait for. Where that is more than one thing, it is one of them, a mask before all others. */
typedef enum stint_deferral {
    STINT_DEFERRAL_NONE = 0, /* nothing: the interrupt comes with the next sample point */
    STINT_DEFERRAL_MASK,     /* the end of a mask */
    STINT_DEFERRAL_LOCK,     /* the release of a lock */
    STINT_DEFERRAL_THROW,    /* the arrival of a C++ exception at its handler */
    STINT_DEFERRAL_ONCE,     /* the end of pthread_once, of call_once, or of a pthread_cleanup_push */
    STINT_DEFERRAL_STATIC,   /* the end of a C++ static initialiser */
    STINT_DEFERRAL_CATCH,    /* the end of a catch block */
    STINT_DEFERRAL_FRAME,    /* the return of code that may not be left: libc's, or that of a library not allowed */
} stint_deferral;

/* Name what an interrupt waits for, for people and logs.
 *
 * Returns a static string: "none", "mask", "lock", "throw", "once", "static", "catch" or "frame"; "unknown" for any
 * other value. */
STINT_API const char *stint_deferral_name(stint_deferral deferral);

/* --- Modules ------------------------------------------------------------------------------------------------------ */

/* These lists hold for the whole process, as long as it lives. */

/* Allow a module to be left in its midst, as the program's own code is: by a jump, by an unwind, and in a preemptible
 * task at any instruction. A name such as "libfoo" means any file called libfoo, libfoo.* or libfoo-*, loaded now or
 * later; "libfoo*" means any file whose name begins so. "*" trusts every module except those that are never left: libc,
 * the loader, the C++ runtime, OpenMP's, mimalloc, Concurrency Kit, and what is protected or kept. name is copied.
 *
 * A program names what its authors have written themselves, or have tried. A function that is left never returns, so
 * what its library had half done stays half done. Only for locks of pthread's and C11's, a once, and static
 * initialisers does an interrupt wait. The environment variable STINT_ALLOW, which is read at the start, does the same
 * with names between colons. A module that is kept from the start (stint_module_keep) is kept no more when it is named
 * without a "*".
 *
 * Returns 0, or:
 *   EINVAL  name is NULL or empty, or has a slash, or a "*" that is not its end
 *   EPERM   the module is one that is never left
 *   ENOMEM  there is no memory */
STINT_API int stint_module_allow(const char *name);

/* Protect a module, as libc is protected: no interrupt leaves a function of it in its midst, whatever
 * stint_module_allow says. A name such as "libssl" means any file called libssl, libssl.* or libssl-*, loaded now or
 * later. name is copied.
 *
 * Returns 0, also when the module was protected already, or:
 *   EINVAL  name is NULL or empty, or has a slash or a "*"
 *   ENOMEM  there is no memory */
STINT_API int stint_module_protect(const char *name);

/* Keep what a module allocates: it is the process's, whatever task the module runs in. This is for libraries that hold
 * blocks in caches and pools of their own and hand them from one task to the next. Such blocks outlive the task. They
 * count for its allocation limit, and not for its memory limit. The module is protected too, as an interrupt inside it
 * might leave its cache half changed. A program calls this at its start.
 *
 * Where they are loaded with the program, cairo, FFTW, GLib, ICU, librsvg, MPFR, OpenSSL, Pango, Tcl, and what makes
 * blocks for them are kept from the start (docs/interrupts.md), until stint_module_allow names them.
 *
 * A block is the module's if the module's code calls malloc's family or operator new. A block that another module
 * (libstdc++, GLib) allocates for it stays the task's, unless that module is kept too. Where a function ends in a call
 * of malloc (a tail call), the block is its caller's. Blocks that the module hands to the task, and that only the
 * task's code would free, are leaked if the task is stopped.
 *
 * The module must be loaded, and stays loaded from then on. What it allocated before does not change.
 *
 * Returns 0, also when the module was kept already, or:
 *   EINVAL  name is NULL or empty, or has a slash or a "*"
 *   ENOENT  no such module is loaded; it is protected if it is loaded later
 *   ENOSPC  64 modules are kept already
 *   ENOMEM  there is no memory */
STINT_API int stint_module_keep(const char *name);

/* --- Guards ------------------------------------------------------------------------------------------------------- */

/* A guard is a release action that runs when the task is interrupted. Memory needs none, since it is rolled back.
 * Descriptors, temporary files, locks, and everything else outside the task's heap do. The idea is from Reppy's
 * treatment of asynchronous interrupts and from the resources of memprof-limits. docs/interrupts.md shows guards at
 * work.
 *
 * A guard concerns the innermost scope of its thread. Outside a scope guards work too, and nothing interrupts them. A
 * release runs masked, may allocate within the scope's grace, and must return. Where a signal or the end of a worker's
 * stack stopped the task, the release has some 50 KiB of stack on a worker (docs/interrupts.md).
 *
 * A longjmp or setcontext runs the guards of the frames that it leaves, where the library overrides these functions
 * (stint_malloc_is_overridden). At pthread_exit and pthread_cancel only two kinds of guard run: a STINT_GUARD in code
 * compiled with -fexceptions, and a stint::Guard. The guards of a frame that is left in any other way are dropped. A
 * task that returns with a guard that it has not popped fails, with EINVAL; that guard does not run, as its frame is
 * gone.
 *
 * In STINT_FAIL the library runs no guard. The task's allocations fail, it returns by itself, and its own code pops its
 * guards: a STINT_GUARD at the end of its block, stint_with when use returns. */

/* Release something: the action of a guard. */
typedef void stint_guard_fn(void *arg);

/* Release something at the end of a block, or at an interrupt. The macro stands as a declaration in the block, as in
 * STINT_GUARD(close_fd, &fd). release(arg) runs once, however the block is left: at its end, by return, break and goto,
 * in C++ by an exception, or by an interrupt.
 *
 * An interrupt may come between the line that acquires something and the STINT_GUARD below it. Where that matters, code
 * masks both lines, or uses stint_with. */
#define STINT_GUARD(release, arg) STINT_GUARD_COUNTED_(__COUNTER__, release, arg)

/* A release action, on the caller's stack frame. Its fields are the library's. */
typedef struct stint_guard {
    stint_guard_fn *function_;
    void *arg_;
    struct stint_guard *below_;
    uint64_t order_;
    uintptr_t check_;
} stint_guard;

/* Push a guard: if the scope is interrupted by a jump before the matching stint_guard_pop, release(arg) runs while the
 * frame is still there. Guards run masked, the newest first. The guard must not be NULL, and must be popped before its
 * frame returns. release may be NULL: then nothing runs. */
STINT_API void stint_guard_push(stint_guard *guard, stint_guard_fn *release, void *arg);

/* Pop a guard and, if run is true, call its release, masked. The end of that mask is a sample point. A guard that has
 * been popped or has run is left alone, so a release runs once at most. */
STINT_API void stint_guard_pop(stint_guard *guard, bool run);

/* Acquire, use or release a resource: the three functions of stint_with. acquire and use return 0 or an error. */
typedef int stint_acquire_fn(void *arg, void **resource);
typedef int stint_use_fn(void *arg, void *resource);
typedef void stint_release_fn(void *arg, void *resource);

/* Acquire a resource, use it, and release it. acquire(arg, &resource) returns 0, or an error and has acquired nothing.
 * use(arg, resource) returns 0 or an error. release(arg, resource) cannot fail. *resource is NULL before acquire.
 *
 * release runs if and only if acquire returned 0: when use has returned, when use is interrupted (among the guards, the
 * newest first), when a longjmp leaves use, or, in C++, when an exception does. acquire and release are masked, use is
 * not. An interrupt that waited during acquire is delivered before use starts, and release runs. In STINT_JUMP an
 * interrupt does not return from here.
 *
 * Returns 0, or what acquire or use returned that is not 0, or:
 *   EINVAL  a function is NULL, and nothing was called */
STINT_API int stint_with(stint_acquire_fn *acquire, stint_use_fn *use, stint_release_fn *release, void *arg);

STINT_END_DECLS

#include <stint/detail/guard.h>

STINT_BEGIN_DECLS

/* --- Hooks -------------------------------------------------------------------------------------------------------- */

/* A hook stops a task that runs a loop of another library, or sleeps in a system call, where its code cannot be
 * left. */

/* Stop the task: the action of a hook. */
typedef void stint_hook_fn(void *arg);

/* A hook, on the caller's stack frame. Its fields are the library's. */
typedef struct stint_hook {
    stint_guard pushed_;
    bool fired_;
} stint_hook;

/* Push a hook: function(arg) is called once when an interrupt of the scope becomes due. It sets a flag
 * (sqlite3_interrupt), writes a byte into a pipe, or shuts a socket down.
 *
 * The first thread that notices calls it. When a limit is passed, that is the task's own thread, from inside an
 * allocation. When a token is set or the deadline comes, it is a thread of the library. So the function must be short,
 * take no lock that the task may hold, and not allocate. The hook must be popped before its frame returns; a jump pops
 * it. A task that returns with a hook that it has not popped fails, with EINVAL.
 *
 * Returns 0, also outside a scope, where nothing will call the function. Otherwise:
 *   EINVAL  hook or function is NULL
 *   EAGAIN  the thread that watches cannot be started */
STINT_API int stint_hook_push(stint_hook *hook, stint_hook_fn *function, void *arg);

/* Pop a hook. After this call its function is not running and will not run. NULL does nothing. */
STINT_API void stint_hook_pop(stint_hook *hook);

/* --- The poisoning mutex ------------------------------------------------------------------------------------------ */

/* While a task holds an ordinary mutex, interrupts wait; so a task that works long under one cannot be stopped. An
 * interrupt may be delivered to the holder of a stint_mutex. The mutex is then unlocked and poisoned, and the next lock
 * tells that what the mutex protects may be half changed. The idea is that of Rust's Mutex and of the robust mutexes of
 * POSIX, whose answers it gives:
 *   - The next lock returns EOWNERDEAD, with the mutex held. The holder repairs what the mutex protects, calls
 *     stint_mutex_consistent and unlocks; then the mutex is as new.
 *   - If the holder unlocks without that call, every later lock returns ENOTRECOVERABLE, until the mutex is destroyed
 *     and made again.
 *   - If the holder is interrupted itself, the next lock returns EOWNERDEAD again.
 *
 * A mutex belongs to the innermost scope of the thread that locked it. It is poisoned and unlocked
 *   - when that scope is interrupted by a jump, in its turn among the scope's guards, the newest first. A guard that is
 *     newer finds the mutex still held, and may repair, call stint_mutex_consistent and unlock it. If the guard only
 *     unlocks the mutex, it stays poisoned; so a plain unlock needs no guard, and would not help;
 *   - when that scope ends in any other way, Ok included, with the mutex still held: the unlock was forgotten;
 *   - when the thread ends, if the mutex was locked outside of scopes.
 *
 * A task in STINT_FAIL is not left by a jump and unlocks by itself. stint_is_interrupted tells it whether what it
 * leaves is whole.
 *
 * The caller provides the memory of a mutex, which must stay where it is, and outlive every lock. A mutex belongs to
 * one process.
 *
 * A task that waits for a mutex gives its place to a substitute worker (pool.h). An interrupt that becomes due
 * meanwhile ends the wait: some twenty milliseconds later at most it is delivered there, with the mutex not held. A
 * wait for a mutex that ends with the lock is no sample point. */

/* A mutex that can be poisoned. Its fields are the library's. */
typedef struct stint_mutex {
    pthread_mutex_t lock_;
    uintptr_t holder_;
    struct stint_mutex *below_;
    struct stint_mutex **link_;
    uint64_t order_;
    int condition_;
} stint_mutex;

/* Make a mutex, unlocked.
 *
 * Returns 0, or:
 *   EINVAL  mutex is NULL
 *   ENOMEM, EAGAIN  as pthread_mutex_init */
STINT_API int stint_mutex_init(stint_mutex *mutex);

/* End a mutex. No other call on it may be under way or follow.
 *
 * Returns 0, also for NULL, or:
 *   EBUSY  the mutex is locked, and nothing was done */
STINT_API int stint_mutex_destroy(stint_mutex *mutex);

/* Lock the mutex, and wait for it as long as it takes.
 *
 * Returns 0 with the mutex held. Otherwise the mutex is not held, except after EOWNERDEAD:
 *   EOWNERDEAD       the mutex is held, and poisoned
 *   ENOTRECOVERABLE  the mutex was unlocked without having been made consistent
 *   EDEADLK          the calling thread holds the mutex already
 *   ECANCELED        the calling task, in STINT_FAIL, is to stop
 *   EINVAL           mutex is NULL */
STINT_API int stint_mutex_lock(stint_mutex *mutex);

/* Lock the mutex if that needs no wait.
 *
 * Returns 0 with the mutex held. Otherwise the mutex is not held, except after EOWNERDEAD:
 *   EBUSY  the mutex is locked, by another thread or by this one
 *   EOWNERDEAD, ENOTRECOVERABLE, EINVAL  as stint_mutex_lock */
STINT_API int stint_mutex_trylock(stint_mutex *mutex);

/* Unlock the mutex.
 *
 * Threads: the thread that holds the mutex, in the scope that locked it or one inside that.
 *
 * Returns 0, or:
 *   EPERM   the calling thread does not hold the mutex
 *   EINVAL  mutex is NULL */
STINT_API int stint_mutex_unlock(stint_mutex *mutex);

/* Say that what the mutex protects is whole again.
 *
 * Threads: the thread that holds the mutex.
 *
 * Returns 0, or:
 *   EPERM   the calling thread does not hold the mutex
 *   EINVAL  the mutex is not poisoned, or mutex is NULL */
STINT_API int stint_mutex_consistent(stint_mutex *mutex);

STINT_END_DECLS

#endif
