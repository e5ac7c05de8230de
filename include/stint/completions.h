/* SPDX-License-Identifier: MIT
 *
 * A completion queue: many futures, one file descriptor, for loops around poll and epoll. Each future that has resolved
 * leaves a completion in the queue; the descriptor is readable while there is one. The idea is that of io_uring's and
 * of Windows' completion ports. examples/loops/epoll.c is such a loop. */
#ifndef STINT_COMPLETIONS_H
#define STINT_COMPLETIONS_H

#include <stint/future.h>

STINT_BEGIN_DECLS

/* Read into an array: it stays as it is. */
typedef struct stint_completion {
    stint_future *future; /* which one; good only for comparing if the caller has released it */
    void *data;           /* that it was added with, or that of the task's options */
    stint_outcome outcome;
} stint_completion;

/* Make a queue with its descriptor. It is the caller's, to be destroyed.
 *
 * 0; EINVAL: queue is NULL; ENOMEM; EMFILE or ENFILE: no more descriptors. Any thread. */
STINT_API int stint_completions_create(stint_completions **queue);

/* Leave a completion in the queue when the future has resolved; at once if it has. A future may be added more than
 * once, and to several queues: there is a completion for each time. It may be released right afterwards. The memory for
 * the completion is taken here, so that resolving a future never fails; it is given back when the completion is read.
 *
 * 0; EINVAL: queue or future is NULL; ENOMEM (nothing was added). Any thread. */
STINT_API int stint_completions_add(stint_completions *queue, stint_future *future, void *data);

/* The descriptor, for poll, epoll (edge-triggered too) and select: readable while there are completions, and maybe once
 * more. It belongs to the queue: do not read, write or close it. The same one at each call; -1 for NULL. Any thread. */
STINT_API int stint_completions_fd(const stint_completions *queue);

/* Take out up to max completions. *count is how many, and may be 0. Futures that one thread resolved come in the order
 * in which it did. Never blocks. Several threads that read at once share what there is.
 *
 * 0; EINVAL: queue or count is NULL, or array is NULL and max is not 0 (*count is then 0, if count is given). Any
 * thread. */
STINT_API int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count);

/* Close the descriptor and forget what has not been read. Futures that have not resolved stay as they are; the record
 * that each has here is freed when it resolves. NULL does nothing. Any thread; no call on this queue may be under way
 * or follow. */
STINT_API void stint_completions_destroy(stint_completions *queue);

STINT_END_DECLS

#endif
