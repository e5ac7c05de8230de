/* SPDX-License-Identifier: MIT
 *
 * A completion queue: many futures, one file descriptor, for loops around poll and epoll. Each future that has resolved
 * leaves a completion in the queue; the descriptor is readable while there is one. The idea is that of io_uring's and
 * of Windows' completion ports. examples/epoll.c is such a loop. */
#ifndef STINT_COMPLETIONS_H
#define STINT_COMPLETIONS_H

#include <stint/future.h>

STINT_BEGIN_DECLS

typedef struct stint_completion {
    stint_future *future; /* which one; only good for comparing when the caller has released it */
    void *data;           /* what it was added with; or the options' */
    stint_outcome outcome;
} stint_completion;

/* Make a queue with its descriptor. The caller's, to be destroyed. Any thread.
 * 0; EINVAL: queue is NULL; ENOMEM; EMFILE or ENFILE: no more descriptors. */
STINT_API int stint_completions_create(stint_completions **queue);

/* Leave a completion in the queue when the future has resolved; at once if it has. A future may be added more than
 * once, and to several queues; each time counts. It may be released right afterwards. The memory for the completion is
 * taken here: a queue takes as much as there are futures added and not read, and resolving them never fails. 0; EINVAL:
 * queue or future is NULL; ENOMEM (nothing was added). Any thread. */
STINT_API int stint_completions_add(stint_completions *queue, stint_future *future, void *data);

/* The descriptor, for poll, epoll (edge-triggered too) and select: readable while there are completions, and maybe once
 * more. It belongs to the queue: do not read, write or close it. The same one at each call; -1 for NULL. Any thread. */
STINT_API int stint_completions_fd(const stint_completions *queue);

/* Take out up to max completions, in the order in which their futures resolved (of one thread's). *count is how many,
 * and may be 0. Never blocks. Any thread; several that read at once share what there is. 0; EINVAL: queue or count is
 * NULL, or array is and max is not 0 (*count is then 0, if it is given). */
STINT_API int stint_completions_read(stint_completions *queue, stint_completion *array, size_t max, size_t *count);

/* Close the descriptor and forget what has not been read. Futures that have not resolved stay as they are: they leave
 * nothing behind, only the record of each stays until then. NULL does nothing. Any thread; no call on this queue may be
 * under way or follow. */
STINT_API void stint_completions_destroy(stint_completions *queue);

STINT_END_DECLS

#endif
