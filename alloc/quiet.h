/* SPDX-License-Identifier: MIT
 *
 * What is quiet over a fork. The child has one thread, and whatever another one held at that moment is held in it for ever.
 * So a fork waits until nobody holds these. Locks that this library takes for a few instructions, with none of its others
 * asked for meanwhile, are named here; those with more to them have handlers of their own (watch.c, and the
 * executor's pools.c). Any thread. */
#ifndef STI_ALLOC_QUIET_H
#define STI_ALLOC_QUIET_H

#include <pthread.h>

struct sti_quiet_lock {
    pthread_mutex_t mutex;
    struct sti_quiet_lock *next;
};

/* clang-format off */
#define STI_QUIET_LOCK_INIT { PTHREAD_MUTEX_INITIALIZER, NULL }
/* clang-format on */

/* From a constructor: nobody holds this lock at a fork, in the child neither. */
void sti_quiet_add(struct sti_quiet_lock *lock);

/* While the calling thread is where others have locks that they do not look after: in the loader for this library, in
 * dl_iterate_phdr or dlopen; or where mimalloc makes or ends a heap, or what it has of a thread. Any number at once; does not nest. */
void sti_quiet_enter(void);
void sti_quiet_leave(void);

#endif
