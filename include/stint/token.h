/* SPDX-License-Identifier: MIT
 *
 * Two things that follow a request through all of its tasks: the token, by which they are cancelled, and the context,
 * which is at hand in each of them.
 *
 *     #include <stdio.h>
 *     #include <stint/task.h>
 *     #include <stint/token.h>
 *
 *     static int work(void *unused, void **value)
 *     {
 *         (void)unused;
 *         (void)value;
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         stint_token *token;
 *         stint_outcome outcome;
 *         if (stint_token_create(NULL, &token) != 0)
 *             return 1;
 *         stint_options options = STINT_OPTIONS_INIT;
 *         options.token = token;
 *         stint_token_set(token); // from any thread, at any time
 *         if (stint_run(work, NULL, &options, &outcome) == 0)
 *             printf("%s\n", stint_reason_name(outcome.reason)); // token
 *         stint_token_release(token);
 *         return 0;
 *     }
 *
 * The token is a cancellation flag. Tokens nest: setting one sets all below it. The idea is that of memprof-limits'
 * tokens and of .NET's CancellationToken; here a set token is seen at the very next allocation of each task that has
 * it. */
#ifndef STINT_TOKEN_H
#define STINT_TOKEN_H

#include <stint/detail/api.h>
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

/* --- Contexts ----------------------------------------------------------------------------------------------------- */

/* The context: what belongs to a request and has to be at hand wherever the request's work is done, such as the user
 * who asked, a trace's number, a locale. A context is one pointer with a destructor and a count of references. It
 * follows the work: a task has the context that its options name, or else that of the task that submits it; its forks
 * and inner scopes have it too. The idea is that of Go's context.Context and of Java's ScopedValue, without keys: a
 * program that needs several values points at a struct.
 *
 *     stint_context *context;
 *     stint_context_create(request, free_request, &context);
 *     options.context = context;
 *     stint_submit(pool, handle, NULL, &options, &future);
 *     stint_context_release(context);
 *     ... in handle, in what it forks, and in what it submits:
 *     struct request *request = stint_context_value(stint_context_current()); */

/* Gives back what a context's value owns. Like a callback of stint_future_then it must not block, and must return. */
typedef void stint_context_destroy_fn(void *value);

/* Make a context of this value, of which the caller owns one reference. When the last reference is given back,
 * destroy(value) is called (NULL: nothing is), on the thread that gave it back, in no task's scope. The value must not
 * be memory of a task that might be rolled back: a task makes it between stint_keep_begin and stint_keep_end
 * (memory.h).
 *
 * 0; EINVAL: context is NULL; ENOMEM. Any thread. */
STINT_API int stint_context_create(void *value, stint_context_destroy_fn *destroy, stint_context **context);

/* Its value; NULL for NULL. Any thread. */
STINT_API void *stint_context_value(const stint_context *context);

/* The context of the task that the calling thread runs: that of its innermost scope, or else of the nearest scope
 * around it that has one. It lives as long as that task runs; retain it to use it longer. NULL: there is none, or no
 * task is run here (callbacks are in no task). Any thread. */
STINT_API stint_context *stint_context_current(void);

/* Take another reference (returns context); give one back. A task has one of its own until it has resolved. NULL is
 * allowed, and does nothing. Any thread. */
STINT_API stint_context *stint_context_retain(stint_context *context);
STINT_API void stint_context_release(stint_context *context);

STINT_END_DECLS

#endif
