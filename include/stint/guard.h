/* SPDX-License-Identifier: MIT
 *
 * Guards: release actions that run when the task is interrupted. Memory needs none, since it is rolled back;
 * descriptors, temporary files, locks, and everything else outside the task's heap do. After Reppy's treatment of
 * asynchronous interrupts and the resources of memprof-limits. docs/interrupts.md shows them at work.
 *
 * Any thread. All of these concern its innermost scope; outside a scope they work too, and nothing interrupts them. A
 * release runs masked, may allocate within the scope's grace, and must return. Where it was a signal or the end
 * of a worker's stack that stopped the task, it has some 50 KiB of stack on a worker (docs/interrupts.md).
 *
 * A longjmp or setcontext runs the guards of the frames that it leaves, where the library overrides these functions
 * (stint_malloc_is_overridden). pthread_exit and pthread_cancel run those that the frame's own end pops: a STINT_GUARD
 * in code compiled with -fexceptions, a stint::Guard. The guards of a frame that is left in any other way are
 * dropped. A task that returns with a guard that it has not popped has failed, with EINVAL; that guard is not run, as
 * its frame is gone.
 *
 * In STINT_FAIL the library runs no guard: the task's allocations fail, it returns by itself, and its own code pops its
 * guards (a STINT_GUARD does so at the end of its block, stint_with when use returns). */
#ifndef STINT_GUARD_H
#define STINT_GUARD_H

#include <stint/api.h>

STINT_BEGIN_DECLS

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

#endif
