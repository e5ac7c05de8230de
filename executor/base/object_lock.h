/* SPDX-License-Identifier: MIT
 *
 * The lock of an object of the program's: a group, a queue of completions. There may be any number of them, so no
 * fork(2) waits until nobody has one; in its child nobody has. For a few instructions, or a system call that does not
 * wait. Any thread. */
#ifndef STI_EXECUTOR_BASE_OBJECT_LOCK_H
#define STI_EXECUTOR_BASE_OBJECT_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct sti_object_lock {
    pthread_mutex_t mutex;
    _Atomic uint64_t forks; /* that led to the process which it is of */
};

void sti_object_lock_init(struct sti_object_lock *lock);
void sti_object_lock_end(struct sti_object_lock *lock);

void sti_object_lock_take(struct sti_object_lock *lock);
void sti_object_lock_give(struct sti_object_lock *lock);

#endif
