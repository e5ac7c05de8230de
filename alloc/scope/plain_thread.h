/* SPDX-License-Identifier: MIT
 *
 * libc's own functions for threads, whatever this library overrides. For joined_thread.c and the overrides of what
 * starts threads (override_join.c). Any thread. */
#ifndef STI_ALLOC_SCOPE_PLAIN_THREAD_H
#define STI_ALLOC_SCOPE_PLAIN_THREAD_H

#include <pthread.h>

int sti_plain_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg);
int sti_plain_join(pthread_t id, void **value);

/* EBUSY: it has not ended. */
int sti_plain_tryjoin(pthread_t id, void **value);

int sti_plain_detach(pthread_t id);

#endif
