/* SPDX-License-Identifier: MIT
 *
 * stint: tasks with budgets.
 *
 * A work-stealing pool runs tasks; each has its own budget; what a task allocates, in its own code and in every library
 * it calls, is charged to that budget; a token or a spent budget interrupts it; its future resolves to Ok, Error or
 * Cancelled.
 *
 * The one rule to remember: a task's memory is a transaction. Ok commits what the task left allocated; Error and
 * Cancelled roll it back.
 *
 * Names: stint_noun_verb, the noun being what is acted upon (stint_pool_create, stint_roots_set_scan);
 * stint_noun_property for what is read; "is" for what is true or false. Only the calling task goes without saying, and
 * the words of the library itself are alone: stint_run, submit, fork, join, for, reduce, sort, fail, finish,
 * checkpoint, mask, unmask, with, when_all, when_any, and malloc's family. Types of functions end in _fn, file
 * descriptors are fd. The object comes first, what a call makes or fills in last. A name that ends in an underscore is
 * not for use.
 *
 * Structs that can grow begin with a size: the options and limits that a program fills in, and the numbers that it asks
 * for. Make each by its macro, and then set fields by their names; or name the size first in a list of fields:
 *
 *     stint_options options = STINT_OPTIONS_INIT;
 *     stint_options options = { .size = sizeof(stint_options), .name = "parse" };
 *
 * The size tells the library which fields the program was compiled with, so that either may be the newer one. An option
 * that the program does not know counts as 0, which always means what was so before there was that option. Of numbers,
 * those that the program does not know are left out, and those that the library does not know are 0. A struct without
 * its size, such as one that was zeroed by hand, is refused with EINVAL by every function that takes it; options of
 * which one is set that this library is too old to know, with E2BIG. Either way nothing has been done. The idea is that
 * of Linux's clone3 and openat2. Structs without a size stay as they are, but that what a callback is given may have
 * more at its end. In C++, compile all that uses the classes of stint.hpp with the same version.
 *
 * A function that is given to the library returns, unless an interrupt leaves it. An exception that comes to the
 * library ends the program by std::terminate, as one out of the function of a std::thread does; stint.hpp catches what
 * C++ tasks throw. The end of the thread (pthread_exit, pthread_cancel) passes a stint_run, which is rolled back, and
 * the release of a guard; in a task of a pool and in any other callback it ends the program, as an exception does
 * (without a C++ runtime by abort()), and so does a longjmp out of a callback. But a pthread_cancel waits until such a
 * callback has returned. Of a longjmp out of a task see stint_run.
 *
 * This header includes all the others. Functions that can fail return 0 or an errno value; the library never prints
 * (but for what goes wrong with STINT_PROFILE, see stint/profile.h), never exits and never aborts on a caller's
 * mistake, but for one: with STINT_DEBUG=1 in the environment the process ends where it frees what is no block. Each
 * function says from which threads it may be called; none may be called from a signal handler, but for those that say
 * so.
 *
 * fork(2). The child of a process with one thread is a whole process, with its open scopes as they were; a profile and
 * a trace have ended there, and a wall is the parent's. Threads of the library's own count: a pool's workers, and the
 * one that a first deadline, hook, preemptible task, profile or trace starts. The child of a process with several
 * threads is a part of one, of which nothing can be used until it calls execve: each function that returns an error
 * says ENOTSUP, the others do nothing. There malloc is libc's own, free leaves a block from before the fork as it is,
 * and realloc copies it. A task that has forked is in no scope there: stint_run returns ENOTSUP when its function
 * returns; the thread of any other function that this library has called ends when that returns. For code that needs
 * processes there is the wall (wall.h), which is made before threads are.
 *
 * What the library makes for a task's calls (futures, tokens, groups, ...) lies in the process's memory and outlives
 * the task, but counts for its allocation limit: so ENOMEM may also mean that there is none left of that, and the call
 * is a sample point. */
#ifndef STINT_STINT_H
#define STINT_STINT_H

#include <stint/account.h>
#include <stint/alloc.h>
#include <stint/blocking.h>
#include <stint/completions.h>
#include <stint/context.h>
#include <stint/delayed.h>
#include <stint/fork.h>
#include <stint/fork_typed.h>
#include <stint/future.h>
#include <stint/global.h>
#include <stint/group.h>
#include <stint/guard.h>
#include <stint/interrupt.h>
#include <stint/link.h>
#include <stint/memprof.h>
#include <stint/metrics.h>
#include <stint/mutex.h>
#include <stint/parallel.h>
#include <stint/pool.h>
#include <stint/profile.h>
#include <stint/report.h>
#include <stint/result.h>
#include <stint/roots.h>
#include <stint/serial.h>
#include <stint/statistics.h>
#include <stint/task.h>
#include <stint/token.h>
#include <stint/trace.h>
#include <stint/version.h>
#include <stint/visit.h>
#include <stint/wall.h>

#endif
