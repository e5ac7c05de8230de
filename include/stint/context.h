/* SPDX-License-Identifier: MIT
 *
 * The context: what belongs to a request and has to be at hand wherever the request's work is done, such as the user
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
#ifndef STINT_CONTEXT_H
#define STINT_CONTEXT_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* Gives back what a context's value owns. Like a callback of stint_future_then it must not block, and must return. */
typedef void stint_context_destroy_fn(void *value);

/* Make a context of this value, of which the caller owns one reference. When the last reference is given back,
 * destroy(value) is called (NULL: nothing is), on the thread that gave it back, in no task's scope. The value must not
 * be memory of a task that might be rolled back: a task makes it between stint_keep_begin and stint_keep_end (roots.h).
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
