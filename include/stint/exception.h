/* SPDX-License-Identifier: MIT
 *
 * Exceptions of C++ (and of any language that unwinds by the same tables) in a library that is none of their runtime.
 *
 * One that leaves the function of stint_run, or of a submitted task, makes it Error with STINT_REASON_EXCEPTION; what
 * it says is in outcome.message. Destructors have run, the exception object has gone.
 *
 * One that leaves the function of a fork leaves from its stint_join, wherever the fork ran; so does one out of a loop,
 * a reduction or a comparator of stint/parallel.h. Forks of the frames that it leaves are taken back or waited for
 * first: by the functions of parallel.h, and at the end of the task or subtask; a frame of C++ that something throws
 * through between its stint_fork and its stint_join must do that itself, with stint_fork_drop, or use stint::Fork of
 * stint.hpp, which does.
 *
 * One that leaves a callback (of a future, of a worker's begin or end, a guard's or a context's release, a hook, a
 * report, a profile's tracker) has no caller to go to: it is reported as below, and forgotten. So is a longjmp out of a
 * callback, and pthread_exit or pthread_cancel in one: the callback ends there, and its thread goes on. Only the
 * release of a guard lets the end of its thread pass. */
#ifndef STINT_EXCEPTION_H
#define STINT_EXCEPTION_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Told of one exception. where: "callback", "release", "hook", "report" or "tracker"; what: what the exception says.
 * Both are valid during the call only. */
typedef void stint_exception_report_fn(const char *where, const char *what, void *arg);

/* Be told of exceptions that leave callbacks. report is called on the thread of the callback, under the same rules as
 * that, and must not throw. NULL: nothing is reported. There is one for the whole process. Any thread. */
STINT_API void stint_exceptions_set_report(stint_exception_report_fn *report, void *arg);

STINT_END_DECLS

#endif
