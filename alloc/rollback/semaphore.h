/* SPDX-License-Identifier: MIT
 *
 * POSIX semaphores that are locks: which they are is override_handle.c's to know. Calling thread. */
#ifndef STI_ALLOC_ROLLBACK_SEMAPHORE_H
#define STI_ALLOC_ROLLBACK_SEMAPHORE_H

#include <semaphore.h>

/* It has been waited for with success: the innermost scope holds it, if it is a lock. */
void sti_semaphore_note_taken(const sem_t *semaphore);

#endif
