/* SPDX-License-Identifier: MIT
 *
 * A thread that becomes a worker's. By that thread. */
#ifndef STI_EXECUTOR_WORKER_THREAD_H
#define STI_EXECUTOR_WORKER_THREAD_H

#include "worker.h"

/* Name it, find its stack, begin to answer for it, and make it sti_worker_own. Once, before all else; sti_worker_main
 * takes it back. */
void sti_worker_begin(struct sti_worker *worker);

/* Whether this much of the thread's stack is left; false on any other stack. */
bool sti_worker_has_stack(const struct sti_worker *worker, size_t size);

#endif
