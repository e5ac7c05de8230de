/* SPDX-License-Identifier: MIT
 *
 * A token and a context follow a request through all of its tasks. The token cancels them, and the context is at hand
 * in each of them.
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
 * tokens and of .NET's CancellationToken. Here each task that has a token sees it at the very next allocation after it
 * is set. */
#ifndef STINT_TOKEN_H
#define STINT_TOKEN_H

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- Tokens ------------------------------------------------------------------------------------------------------- */

/* Make a token below parent; NULL as parent makes a root. The caller owns one reference, and gives it back with
 * stint_token_release. The token keeps its parent alive.
 *
 * Returns 0, or:
 *   EINVAL  token is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_token_create(stint_token *parent, stint_token **token);

/* Set the token, for good. Every running task that has it, or a token below it, reaches a sample point at its next
 * allocation, stint_checkpoint or stint_unmask, and is interrupted there with STINT_REASON_TOKEN. A queued task
 * resolves without starting. NULL does nothing.
 *
 * The call costs one store, and one more for each thread that has run a task. Where there are hooks, preemptible tasks
 * or token descriptors, it also costs a look at each of them, and a system call for those that are to hear of it.
 *
 * Threads: any thread, also in a signal handler. */
STINT_API void stint_token_set(stint_token *token);

/* Tell whether the token, or one above it, is set.
 *
 * Threads: any thread, also in a signal handler.
 *
 * Returns true if one is; false for NULL. */
STINT_API bool stint_token_is_set(const stint_token *token);

/* Make a file descriptor that becomes readable when the token, or one above it, is set. It is for poll and epoll, and
 * belongs to the token: a program does not read, write or close it. Each call gives the same one.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL
 *   ENOMEM  there is no memory
 *   EMFILE, ENFILE  there are no more descriptors
 *   EAGAIN  the thread that watches tokens cannot be started */
STINT_API int stint_token_fd(stint_token *token, int *fd);

/* Take another reference to a token, or give one back. The token is freed with its last reference; tasks have
 * references of their own. NULL does nothing.
 *
 * Returns token (stint_token_retain). */
STINT_API stint_token *stint_token_retain(stint_token *token);
STINT_API void stint_token_release(stint_token *token);

/* --- Contexts ----------------------------------------------------------------------------------------------------- */

/* A context is what belongs to a request and has to be at hand wherever the request's work is done: the user who asked,
 * a trace's number, a locale. It is one pointer, with a destructor and a count of references. It follows the work: a
 * task has the context that its options name, or else that of the task that submits it, and its forks and inner scopes
 * have it too. The idea is that of Go's context.Context and of Java's ScopedValue, without keys: a program that needs
 * several values points at a struct. */

/* Destroy what a context's value owns, when nobody needs the context any more. Like a callback of stint_future_then the
 * function must not block, and must return. */
typedef void stint_context_destroy_fn(void *value);

/* Make a context of this value. The caller owns one reference, and gives it back with stint_context_release. When the
 * last reference is given back, destroy(value) is called on the thread that gave it back, in no task's scope. destroy
 * may be NULL: nothing is called. The value must not be memory of a task that might be rolled back; a task makes it
 * between stint_keep_begin and stint_keep_end (memory.h).
 *
 *     #include <stdio.h>
 *     #include <stint/pool.h>
 *     #include <stint/token.h>
 *
 *     static int handle(void *unused, void **value)
 *     {
 *         (void)unused;
 *         (void)value;
 *         // the same here, in what this task forks, and in what it submits
 *         puts(stint_context_value(stint_context_current()));
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         static char request[] = "request 42";
 *         stint_context *context;
 *         stint_pool *pool;
 *         stint_future *future;
 *         if (stint_context_create(request, NULL, &context) != 0 || stint_pool_create(NULL, &pool) != 0)
 *             return 1;
 *         stint_options options = STINT_OPTIONS_INIT;
 *         options.context = context;
 *         if (stint_submit(pool, handle, NULL, &options, &future) == 0)
 *             stint_future_wait(future, NULL);
 *         stint_future_release(future);
 *         stint_context_release(context);
 *         return stint_pool_destroy(pool);
 *     }
 *
 * Returns 0, or:
 *   EINVAL  context is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_context_create(void *value, stint_context_destroy_fn *destroy, stint_context **context);

/* Tell the value of a context.
 *
 * Returns the value; NULL for NULL. */
STINT_API void *stint_context_value(const stint_context *context);

/* Find the context of the task that the calling thread runs: that of its innermost scope, or else of the nearest scope
 * around it that has one. The context lives as long as that task runs; code that uses it longer retains it.
 *
 * Returns the context; NULL: there is none, or the thread runs no task (callbacks are in no task). */
STINT_API stint_context *stint_context_current(void);

/* Take another reference to a context, or give one back. A task has one of its own until it has resolved. NULL does
 * nothing.
 *
 * Returns context (stint_context_retain). */
STINT_API stint_context *stint_context_retain(stint_context *context);
STINT_API void stint_context_release(stint_context *context);

STINT_END_DECLS

#endif
