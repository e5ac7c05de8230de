/* SPDX-License-Identifier: MIT
 *
 * What a task does about its interrupts: guards, which release what is not memory; safepoints; masks, behind which an
 * interrupt waits; which modules may be left in their midst; hooks for code that cannot be left; and a mutex that
 * tells of a holder that was interrupted.
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
 * docs/interrupts.md has the whole of it. */
#ifndef STINT_INTERRUPT_H
#define STINT_INTERRUPT_H

#include <pthread.h>

#include <stint/detail/api.h>

STINT_BEGIN_DECLS

/* --- Sample points, masks, modules -------------------------------------------------------------------------------- */

/* Interrupts as a task's own code sees them: sample points that it makes itself, and regions in which an interrupt has
 * to wait. Any thread; where nothing else is said, these functions concern its innermost scope, and do nothing outside
 * a scope. What a task does about an interrupt is below: guards, hooks, the poisoning mutex. The idea of masks is that
 * of Haskell's asynchronous exceptions (Marlow and others 2001).
 *
 * An interrupt is due when a limit is passed or a token is set. It is delivered at a sample point: an allocation,
 * a call that makes a record (such as stint_submit), stint_checkpoint, the end of a mask, of a guard's release, of a
 * blocking region, of an inner stint_run, of a wait for a future, or of the join of a fork that another worker took;
 * and when it comes while the task sleeps in a wait for a future, for a slot in another pool's queue, for a stint_mutex
 * or for the end of another pool. (A preemptible task, and one that has come to the end of its worker's stack, may be
 * stopped at any instruction where the following allows it: task.h.) It is never delivered
 *   - while masked;
 *   - with a frame between here and the scope of code that may not be left in its midst. The program itself may, what
 *     stint_module_allow names, and some libraries of which it is known (docs/interrupts.md); others not: libc (a
 *     comparator under qsort), the loader (a constructor under dlopen), the C++ runtime, that of OpenMP (a parallel
 *     region), any other library, and code that was generated;
 *   - while the task's code holds a mutex, rwlock or spinlock (pthread's, C11's, C++'s) or a locked FILE that it took
 *     in the scope, is in pthread_once or call_once, between pthread_cleanup_push and pop (in C without -fexceptions;
 *     elsewhere that is a destructor: docs/cpp.md), in a C++ static initialiser, or in a catch block;
 *   - while a C++ exception is on its way to a catch block.
 * There an allocation still succeeds, up to the scope's grace, and then fails with ENOMEM; the interrupt follows at the
 * first safe point. A STINT_FAIL task is refused its allocations, and its code is not left. So only a mask, or an
 * allocation that libc or the loader makes for itself, delays the refusal. What libc allocates for itself is in no heap
 * that is destroyed, so that a rollback leaves libc whole; a FILE, a DIR and a regex_t that the task left open are
 * closed at a rollback, unless a variable points to them (docs/interrupts.md). stint does not see a lock made by hand
 * (a semaphore too), nor the constructor of a thread_local variable. Mask both. */

/* An explicit sample point, for loops that do not allocate: looks at tokens and the deadline, and delivers what is due.
 * In STINT_JUMP it may not return; in STINT_FAIL it returns and stint_is_interrupted() tells. Costs a few
 * nanoseconds. */
STINT_API void stint_checkpoint(void);

/* For a value that owns something besides memory, such as a descriptor: the last call of a scope's function. Looks at
 * the limits, the token and the clock once more. True: nothing can interrupt the scope any more; it is Ok if the
 * function returns 0, which it must do soon. False: the scope has been interrupted and will be rolled back, so give
 * back now what the value owns. True outside of scopes. Not in subtasks. */
STINT_API bool stint_finish(void);

/* Whether the innermost scope is being interrupted: it or a scope around it has been found to be past a limit or
 * cancelled, and will end. True in guards, and in a STINT_FAIL task from the moment at which that was noticed. Does not
 * look at tokens or clocks itself: call stint_checkpoint first, as a library's progress callback would. False outside a
 * scope. */
STINT_API bool stint_is_interrupted(void);

/* Defer interrupts until the matching stint_unmask. Nests; the outermost stint_unmask is a sample point, and delivers
 * an interrupt that is due. A task that returns masked has failed, with EINVAL. */
STINT_API void stint_mask(void);
STINT_API void stint_unmask(void);

/* What an interrupt has to wait for; where that is more than one thing, one of them: a mask before all others. */
typedef enum stint_deferral {
    STINT_DEFERRAL_NONE = 0, /* nothing: it comes with the next sample point */
    STINT_DEFERRAL_MASK,     /* the end of a mask */
    STINT_DEFERRAL_LOCK,     /* the release of a lock */
    STINT_DEFERRAL_THROW,    /* the arrival of a C++ exception at its handler */
    STINT_DEFERRAL_ONCE,     /* the end of pthread_once, call_once, or a pthread_cleanup_push */
    STINT_DEFERRAL_STATIC,   /* the end of a C++ static initialiser */
    STINT_DEFERRAL_CATCH,    /* the end of a catch block */
    STINT_DEFERRAL_FRAME,    /* the return of code that may not be left: libc's, or that of a library not allowed */
} stint_deferral;

/* "none", "mask", "lock", "throw", "once", "static", "catch", "frame"; "unknown" for any other value. Static strings;
 * any thread. */
STINT_API const char *stint_deferral_name(stint_deferral deferral);

/* Protect a module by name, as libc is protected: no interrupt leaves a function of it in its midst, whatever
 * stint_module_allow says. "libssl" means any file called libssl, libssl.* or libssl-*, loaded now or later. For the
 * whole process, and as long as that lives. name is copied.
 *
 * 0, also when it was protected already; EINVAL: name is NULL, empty, or has a slash or a '*'; ENOMEM. Any thread. */
STINT_API int stint_module_protect(const char *name);

/* Say of a module by name that its functions may be left in their midst, as the program's own are: by a jump, by an
 * unwind, and in a preemptible task at any instruction. "libfoo" means any file called libfoo, libfoo.* or libfoo-*,
 * loaded now or later; "libfoo*" any whose name begins so; and "*" trusts every module but those that are never left:
 * libc, the loader, the C++ runtime, OpenMP's, mimalloc, Concurrency Kit, and what is protected or kept. Name
 * what you have written yourself, or have tried: a function that is left never returns, so whatever its library had
 * half done stays so, but for locks of pthread's and C11's, a once, and static initialisers, for which an interrupt
 * waits. The variable STINT_ALLOW, read at the start, does the same with names between colons. For the whole process,
 * and as long as that lives. name is copied.
 *
 * One that is kept from the start (below) is kept no more when it is named without a '*'.
 *
 * 0; EINVAL: name is NULL, empty, or has a slash, or a '*' that is not its end; EPERM: it is one that is never left;
 * ENOMEM. Any thread. */
STINT_API int stint_module_allow(const char *name);

/* Let what a module allocates be the process's, whatever task it runs in: for libraries that keep blocks in caches and
 * pools of their own and hand them from one task to the next. Such blocks outlive the task; they count for its
 * allocation limit, not for its memory limit. The module is protected as above, as an interrupt inside it might leave
 * its cache half changed. Where they are loaded with the program, cairo, FFTW, GLib, ICU, librsvg, MPFR, OpenSSL,
 * Pango, Tcl, and what makes blocks for them are kept from the start (docs/interrupts.md), until stint_module_allow
 * names them.
 *
 * A block is the module's by the address that calls malloc's family or operator new. A block that another module
 * (libstdc++, GLib) allocates for it stays the task's. Keep that module too if this matters. And where a function ends
 * in a call of malloc (a tail call), the block is its caller's. Blocks that the module hands to the task, and that only
 * the task's code would free, are leaked if the task is stopped.
 *
 * The module must be loaded, and stays so from then on; what it has allocated before is not changed. Best called at the
 * start: for the whole process, and as long as that lives.
 *
 * 0, also when it was kept already; EINVAL: name is NULL, empty, or has a slash; ENOENT: no such module is loaded (it
 * is protected if it is loaded later); ENOSPC: 64 modules are kept; ENOMEM. Any thread. */
STINT_API int stint_module_keep(const char *name);

/* --- Guards ------------------------------------------------------------------------------------------------------- */

/* Guards: release actions that run when the task is interrupted. Memory needs none, since it is rolled back;
 * descriptors, temporary files, locks, and everything else outside the task's heap do. After Reppy's treatment of
 * asynchronous interrupts and the resources of memprof-limits. docs/interrupts.md shows them at work.
 *
 * Any thread. All of these concern its innermost scope; outside a scope they work too, and nothing interrupts them. A
 * release runs masked, may allocate within the scope's grace, and must return. Where it was a signal or the end
 * of a worker's stack that stopped the task, it has some 50 KiB of stack on a worker (docs/interrupts.md).
 *
 * A longjmp or setcontext runs the guards of the frames that it leaves, where the library overrides these functions
 * (stint_malloc_is_overridden). At pthread_exit and pthread_cancel only two kinds of guard run: a STINT_GUARD in code
 * compiled with -fexceptions, and a stint::Guard. The guards of a frame that is left in any other way are dropped. A
 * task that returns with a guard that it has not popped has failed, with EINVAL; that guard is not run, as its frame is
 * gone.
 *
 * In STINT_FAIL the library runs no guard: the task's allocations fail, it returns by itself, and its own code pops its
 * guards (a STINT_GUARD does so at the end of its block, stint_with when use returns). */

/* What a guard does; see stint_guard_push. */
typedef void stint_guard_fn(void *arg);

/* A release action, on the caller's stack frame. Its fields are the library's. */
typedef struct stint_guard {
    stint_guard_fn *function_;
    void *arg_;
    struct stint_guard *below_;
    uint64_t order_;
    uintptr_t check_;
} stint_guard;

/* Push a guard, which must not be NULL: if the scope is interrupted by a jump before the matching pop, release(arg)
 * runs, masked, newest guard first, while the frame is still there. The guard must be popped before its frame returns.
 * release may be NULL: then nothing runs. */
STINT_API void stint_guard_push(stint_guard *guard, stint_guard_fn *release, void *arg);

/* Take the guard off again and, if run is true, call its release, masked. The end of that mask is a sample point. A
 * guard that has been popped or has run is left alone: a release runs once at most. */
STINT_API void stint_guard_pop(stint_guard *guard, bool run);

/* The same for a block, as a declaration in it:
 *
 *     int fd = open(path, O_RDONLY);
 *     STINT_GUARD(close_fd, &fd);
 *
 * release(arg) runs once: at the end of the block, however the block is left (return, break and goto too, in C++ an
 * exception), or at an interrupt. An interrupt may come between the two lines above: where that matters, mask both, or
 * use stint_with. */
#define STINT_GUARD(release, arg) STINT_GUARD_COUNTED_(__COUNTER__, release, arg)

/* Open a resource, use it, release it:
 *
 *     error = stint_with(acquire, use, release, arg);
 *
 * acquire(arg, &resource) returns 0, or an error and has acquired nothing; use(arg, resource) returns 0 or an error;
 * release(arg, resource) must not fail. release runs if and only if acquire returned 0: when use has returned, when use
 * is interrupted (newest first, among the guards), when a longjmp leaves use, or, in C++, when an exception does.
 * acquire and release are masked, use is not; an interrupt that waited during acquire is delivered before use starts,
 * and release runs. *resource is NULL before acquire. Any thread, inside a scope or outside.
 *
 * 0; what acquire or use returned; EINVAL: a function is NULL (nothing was called). In STINT_JUMP an interrupt does not
 * return from here. */
typedef int stint_acquire_fn(void *arg, void **resource);
typedef int stint_use_fn(void *arg, void *resource);
typedef void stint_release_fn(void *arg, void *resource);
STINT_API int stint_with(stint_acquire_fn *acquire, stint_use_fn *use, stint_release_fn *release, void *arg);

STINT_END_DECLS

#include <stint/detail/guard.h>

STINT_BEGIN_DECLS

/* --- Hooks -------------------------------------------------------------------------------------------------------- */

/* How code that cannot be left is told to stop. */

/* What a hook does; see stint_hook_push. */
typedef void stint_hook_fn(void *arg);

/* How a task that runs a loop of another library, or sleeps in a system call, is told to stop. On the caller's stack
 * frame. Its fields are the library's. */
typedef struct stint_hook {
    stint_guard pushed_;
    bool fired_;
} stint_hook;

/* Have function(arg) called, once, when an interrupt of the scope becomes due: to set a flag (sqlite3_interrupt), write
 * a byte into a pipe, shut a socket down. It is called by the first thread that notices: the task's own, from inside an
 * allocation, when a limit is passed; otherwise a thread of the library's, at once when a token is set, and at the
 * deadline. So it must be short, take no lock that the task may hold, and not allocate. The hook must be popped before
 * its frame returns; a jump pops it. A task that returns with a hook that it has not popped has failed, with EINVAL.
 *
 * 0 (outside a scope too, where nothing will call it); EINVAL: hook or function is NULL; EAGAIN: the thread that
 * watches could not be started. */
STINT_API int stint_hook_push(stint_hook *hook, stint_hook_fn *function, void *arg);

/* Take the hook off again. After this its function is not running and will not run. NULL does nothing. */
STINT_API void stint_hook_pop(stint_hook *hook);

/* --- The poisoning mutex ------------------------------------------------------------------------------------------ */

/* The poisoning mutex. While a task holds an ordinary mutex, interrupts wait; a task that works long under one cannot
 * be stopped. An interrupt may be delivered to the holder of a stint_mutex: the mutex is then unlocked and poisoned,
 * and the next lock tells that what it protects may be half changed. After Rust's Mutex and the robust mutexes of
 * POSIX, whose answers it gives:
 *
 *     the next lock returns EOWNERDEAD, with the mutex held. The holder repairs what the mutex protects, calls
 *     stint_mutex_consistent and unlocks: the mutex is as new. If it unlocks without that call, every later lock
 *     returns ENOTRECOVERABLE, until the mutex is destroyed and made again. If it is interrupted itself, the next lock
 *     returns EOWNERDEAD again.
 *
 * A mutex belongs to the innermost scope of the thread that locked it. It is poisoned and unlocked
 *   - when that scope is interrupted by a jump: in its turn among the scope's guards, newest first. A guard that is
 *     newer finds it still held, and may repair, call stint_mutex_consistent and unlock it; if it only unlocks it, it
 *     stays poisoned. So a plain unlock needs no guard, and would not help;
 *   - when that scope ends in any other way, Ok included, with the mutex still held: its unlock was forgotten;
 *   - when the thread ends, for a mutex that was locked outside of scopes.
 * A task in STINT_FAIL is not left by a jump and unlocks by itself; stint_is_interrupted() tells it whether what it
 * leaves is whole.
 *
 * The memory is the caller's, must stay where it is, and must outlive every lock. It is process-private.
 *
 * A task that waits for a mutex gives its place to a substitute worker (pool.h). An interrupt that becomes due
 * meanwhile ends the wait: some twenty milliseconds later at most the wait is a sample point, with the mutex not held.
 * A wait for a mutex that ends with the lock is no sample point. */

/* Its fields are the library's. */
typedef struct stint_mutex {
    pthread_mutex_t lock_;
    uintptr_t holder_;
    struct stint_mutex *below_;
    struct stint_mutex **link_;
    uint64_t order_;
    int condition_;
} stint_mutex;

/* Make a mutex, unlocked. 0; EINVAL: mutex is NULL; ENOMEM, EAGAIN: as pthread_mutex_init. Any thread. */
STINT_API int stint_mutex_init(stint_mutex *mutex);

/* End the mutex. 0, also for NULL; EBUSY: it is locked (nothing was done). Any thread; no other call on it may be under
 * way or follow. */
STINT_API int stint_mutex_destroy(stint_mutex *mutex);

/* Lock the mutex, and wait for it as long as it takes.
 *
 * With the mutex held: 0; EOWNERDEAD: it is poisoned. Without: ENOTRECOVERABLE: it was unlocked without having been
 * made consistent; EDEADLK: the calling thread holds it already; ECANCELED: the calling task, in STINT_FAIL, is to
 * stop; EINVAL: mutex is NULL. Any thread. */
STINT_API int stint_mutex_lock(stint_mutex *mutex);

/* The same without waiting. In place of EDEADLK and a wait EBUSY: it is locked. Any thread. */
STINT_API int stint_mutex_trylock(stint_mutex *mutex);

/* Unlock the mutex. On the thread that holds it, in the scope that locked it or one inside that.
 *
 * 0; EPERM: the calling thread does not hold it; EINVAL: mutex is NULL. */
STINT_API int stint_mutex_unlock(stint_mutex *mutex);

/* Say that what the mutex protects is whole again. On the thread that holds it.
 *
 * 0; EPERM: the calling thread does not hold it; EINVAL: it is not poisoned, or mutex is NULL. */
STINT_API int stint_mutex_consistent(stint_mutex *mutex);

STINT_END_DECLS

#endif
