/* SPDX-License-Identifier: MIT
 *
 * The token: a cancellation flag. Tokens nest: setting one sets all below it. The idea is that of memprof-limits'
 * tokens and of .NET's CancellationToken; here a set token is seen at the very next allocation of each task that has
 * it. */
#ifndef STINT_TOKEN_H
#define STINT_TOKEN_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* Make a token below parent (NULL: a root). The caller owns one reference; the token keeps its parent alive.
 * 0; EINVAL: token is NULL; ENOMEM. Any thread. */
STINT_API int stint_token_create(stint_token *parent, stint_token **token);

/* Set the token, for good. Every running task that has it or a token below it reaches a sample point at its next
 * allocation, its next stint_checkpoint or stint_unmask, and is interrupted there with STINT_REASON_TOKEN; a queued one
 * resolves without starting. NULL does nothing. Any thread, also from a signal handler: it costs one store, and one
 * more for each thread that has run a task; where there are hooks, preemptible tasks or token descriptors, a look at
 * each of them, and a system call for those that are to hear of it. */
STINT_API void stint_token_set(stint_token *token);

/* Whether the token, or one above it, is set. False for NULL. Any thread, also from a signal handler. */
STINT_API bool stint_token_is_set(const stint_token *token);

/* A file descriptor that becomes readable when the token, or one above it, is set: for poll and epoll. It belongs to
 * the token: do not read, write or close it. The same one at each call.
 *
 * 0; EINVAL: an argument is NULL; ENOMEM; EMFILE
 * or ENFILE: no more descriptors; EAGAIN: the thread that watches tokens could not be started. Any thread; not in
 * signal handlers. */
STINT_API int stint_token_fd(stint_token *token, int *fd);

/* Take another reference; returns token. NULL is passed through. Any thread. */
STINT_API stint_token *stint_token_retain(stint_token *token);

/* Give one reference back; the last one frees the token. Tasks hold references of their own. NULL does nothing. Any
 * thread. */
STINT_API void stint_token_release(stint_token *token);

STINT_END_DECLS

#endif
