/* SPDX-License-Identifier: MIT
 *
 * Locks of the executor's that nobody holds at a fork(2), in the child neither. Under these others may be taken, those
 * of alloc/base/process.h too: so a fork(2) takes all of these first. Any thread. */
#ifndef STI_EXECUTOR_BASE_OUTER_LOCK_H
#define STI_EXECUTOR_BASE_OUTER_LOCK_H

#include <pthread.h>

/* In the order in which a fork(2) takes them. */
enum sti_outer_lock {
    STI_OUTER_WAITS, /* deadlock.c: the list of sleepers */
    STI_OUTER_WALLS, /* wall.c: the list of all walls, and their spare children */
    STI_OUTER_VISIT, /* visit.c: one visitor at a time */
    STI_OUTER_POOLS, /* pools.c: the list of all pools */
    STI_OUTER_LOCKS,
};

/* No two share a line of the cache. */
extern struct sti_outer_mutex {
    _Alignas(64) pthread_mutex_t mutex;
} sti_outer_locks[STI_OUTER_LOCKS] __attribute__((visibility("hidden")));

/* Handlers of a fork(2); the second one in the child, too. */
void sti_outer_before_fork(void);
void sti_outer_after_fork(void);

#endif
