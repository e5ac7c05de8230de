/* SPDX-License-Identifier: MIT
 *
 * mimalloc's locks in the child of a fork. It does not look after them: one that another thread held at that moment, in the
 * midst of an allocation, is held in the child for ever. */
#ifndef STI_ALLOC_LOCK_IN_CHILD_H
#define STI_ALLOC_LOCK_IN_CHILD_H

#include <pthread.h>

/* The process is the child of a fork, and somebody there is about to take this lock for the caller: if it is mimalloc's, and who
 * holds it is not there, nobody holds it from now on. Any thread of the child. */
void sti_lock_in_child(pthread_mutex_t *mutex, const void *caller);

#endif
