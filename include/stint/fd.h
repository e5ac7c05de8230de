/* SPDX-License-Identifier: MIT
 *
 * The audit of descriptors. A rollback takes memory back, and no descriptor: what a task opened and no guard closed
 * stays open. A task with options.audit_fds is asked: the open descriptors are listed before it starts and, if it is
 * rolled back, after its guards have run; those that are new are counted in usage.open_fds and reported. They are not
 * closed, as by then nothing tells whose they are. Meant for tests, and for finding leaks.
 *
 * Descriptors are told apart by their numbers, and belong to the whole process. So one that another thread opened
 * meanwhile is counted too, and one that the task put in the place of one it closed is not. Each listing costs about 5
 * microseconds and 1 more for every 10 open descriptors. Where /proc cannot be read nothing is counted. */
#ifndef STINT_FD_H
#define STINT_FD_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* A descriptor that was left open. The strings are valid during the call only. */
typedef struct stint_open_fd {
    int fd;
    const char *target; /* what it refers to, as /proc has it: a path, "socket:[7]"; "" when it was closed meanwhile */
    const char *task;   /* stint_options.name of the task; may be NULL */
} stint_open_fd;

/* Told of one descriptor that an audited task left open; see stint_fds_set_report. */
typedef void stint_fd_report_fn(const stint_open_fd *open, void *arg);

/* Be told of every descriptor that an audited task left open. report is called on the thread of the task, after it,
 * outside its scope; it may allocate and close the descriptor, and may not run a scope. NULL: nothing is reported.
 * There is one for the whole process. Any thread. */
STINT_API void stint_fds_set_report(stint_fd_report_fn *report, void *arg);

STINT_END_DECLS

#endif
