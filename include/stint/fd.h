/* SPDX-License-Identifier: MIT
 *
 * Descriptors that a task opens. A rollback takes memory back, and libc's streams and other handles; a descriptor stays
 * open unless somebody says whose it is.
 *
 * A task with options.owns_descriptors owns what it opens: what it has not closed when it is rolled back is closed
 * then, after its guards and its streams; nothing half written is written out. What it leaves open when it ends Ok is
 * its caller's. Remembered is what the functions of libc hand out that the task's threads call, be it in a library:
 * open, openat, creat, mkstemp, open_by_handle_at and shm_open; socket, socketpair, accept, rresvport, rcmd and rexec,
 * and what recvmsg and recvmmsg receive; dup and F_DUPFD, pipe, eventfd, epoll_create, timerfd_create, signalfd,
 * memfd_create, mq_open, inotify_init and fanotify_init; posix_openpt, getpt, openpty and forkpty; pidfd_open and
 * pidfd_getfd, fsopen, fsmount, fspick and open_tree, where glibc is 2.36 or later; in all their forms. None of another
 * task's or thread's is ever touched. Not remembered: what is opened between stint_keep_begin and stint_keep_end, what
 * dup2 puts in the place of a descriptor that was there before the task, what ioctl and clone hand out, system calls by
 * syscall, and what libc opens for itself (its streams are closed as streams). Scopes inside such a task own theirs as
 * part of it. A library that opens a descriptor once for the process and remembers its number must do so before the
 * first such task, in a keep region, or hand it out by stint_descriptor_keep. The overrides are this library's
 * (stint_malloc_is_overridden).
 *
 * The audit, for tests and for finding leaks. A task with options.audit_fds is asked: the open descriptors are listed
 * before it starts and, if it is rolled back, when that is done; those that are new are counted in usage.open_fds and
 * reported, and whether the task has opened them itself, so that owns_descriptors would close them. They are told apart
 * by their numbers, and belong to the whole process. So one that another thread opened meanwhile is counted too, and
 * one that the task put in the place of one it closed is not. Each listing costs about 5 microseconds and 1 more for
 * every 10 open descriptors. Where /proc cannot be read nothing is counted. */
#ifndef STINT_FD_H
#define STINT_FD_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* A descriptor that was left open. The strings are valid during the call only. */
typedef struct stint_open_fd {
    int fd;
    const char *target;  /* what it refers to, as /proc has it: a path, "socket:[7]"; "" when it was closed meanwhile */
    const char *task;    /* stint_options.name of the task; may be NULL */
    bool opened_by_task; /* it is one that options.owns_descriptors would have closed */
} stint_open_fd;

/* Told of one descriptor that an audited task left open; see stint_fds_set_report. */
typedef void stint_fd_report_fn(const stint_open_fd *open, void *arg);

/* Be told of every descriptor that an audited task left open. report is called on the thread of the task, after it,
 * outside its scope; it may allocate and close the descriptor, and may not run a scope. NULL: nothing is reported.
 * There is one for the whole process. Any thread. */
STINT_API void stint_fds_set_report(stint_fd_report_fn *report, void *arg);

/* Hand a descriptor out: the task that opened it does not own it any more, and its rollback leaves it open. For one
 * that somebody outside of the task uses from now on.
 *
 * 0; ENOENT: no running task owns it; EINVAL: it is negative. Any thread. */
STINT_API int stint_descriptor_keep(int fd);

STINT_END_DECLS

#endif
