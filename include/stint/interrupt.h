/* SPDX-License-Identifier: MIT
 *
 * Interrupts as a task's own code sees them: sample points that it makes itself, and regions in which an interrupt has
 * to wait. Any thread; where nothing else is said, these functions concern its innermost scope, and do nothing outside
 * a scope. What a task does about an interrupt is in guard.h and mutex.h. The idea of masks is that of Haskell's
 * asynchronous exceptions (Marlow and others 2001).
 *
 * An interrupt is due when a limit is passed or a token is set. It is delivered at a sample point: an allocation,
 * stint_checkpoint, the end of a mask, of an inner stint_run, or of a wait for a future; and when it comes while the
 * task sleeps in a wait for a future, for a slot in another pool's queue, for a stint_mutex or for the end of another
 * pool. (A preemptible task, and one that has come to the end of its worker's stack, may be stopped at any instruction
 * where the following allows it: task.h.) It is never delivered
 *   - while masked;
 *   - with a frame between here and the scope of code that may not be left in its midst. The program itself may, what
 *     stint_module_allow names, and some libraries of which it is known (docs/interrupts.md); others not: libc (a
 *     comparator under qsort), the loader (a constructor under dlopen), the C++ runtime, that of OpenMP (a parallel
 *     region), any other library, and code that was generated;
 *   - while the task's code holds a mutex, rwlock or spinlock (pthread's, C11's, C++'s) or a locked FILE that it took
 *     in the scope, is in pthread_once or call_once, between pthread_cleanup_push and pop (in C without -fexceptions;
 *     elsewhere that is a destructor: docs/cpp.md), in a C++ static initialiser, or in a catch block;
 *   - while a C++ exception is on its way to one.
 * There an allocation still succeeds, up to the scope's grace, and then fails with ENOMEM; the interrupt follows at the
 * first safe point. A STINT_FAIL task is not left but refused its allocations, so for it only masks and the allocations
 * of libc and the loader themselves count. What libc allocates for itself is in no heap that is destroyed, so that
 * a rollback leaves libc whole; a FILE, a DIR and a regex_t that the task left open are closed at a rollback, unless a
 * variable points to them (docs/interrupts.md). Locks made by hand, of a semaphore too, and thread_local variables that
 * are being made are not seen: mask them. */
#ifndef STINT_INTERRUPT_H
#define STINT_INTERRUPT_H

#include <stint/api.h>
#include <stint/guard.h>

STINT_BEGIN_DECLS

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
 * A block is the module's by the address that calls malloc's family or operator new. So what other modules allocate for
 * it (libstdc++, GLib) is not: name those too where it matters. And where a function ends in a call of malloc (a tail
 * call), the block is its caller's. Blocks that the module hands to the task, and that only the task's code would free,
 * are leaked if the task is stopped.
 *
 * The module must be loaded, and stays so from then on; what it has allocated before is not changed. Best called at the
 * start: for the whole process, and as long as that lives.
 *
 * 0, also when it was kept already; EINVAL: name is NULL, empty, or has a slash; ENOENT: no such module is loaded (it
 * is protected if it is loaded later); ENOSPC: 64 modules are kept; ENOMEM. Any thread. */
STINT_API int stint_module_keep(const char *name);

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

STINT_END_DECLS

#endif
