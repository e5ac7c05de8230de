/* SPDX-License-Identifier: MIT
 *
 * Waiting, before a fork, for what must not be under way in it; see quiet.h. Any thread.
 *
 * Who is in the loader, or in mimalloc's lists of heaps, has the read side of a lock, and a fork the write side, which goes first where both wait: or threads
 * that roll back one task after another would never let one happen. Who waits for either at a fork is not there in the
 * child; so the child's lock is a new one. */
#include "quiet.h"

#include <stddef.h>

#include "plain_lock.h"

static struct sti_quiet_lock *locks;

static pthread_rwlock_t others = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void sti_quiet_add(struct sti_quiet_lock *lock)
{
    lock->next = locks;
    locks = lock;
}

void sti_quiet_enter(void)
{
    sti_plain_rwlock_rdlock(&others);
}

void sti_quiet_leave(void)
{
    sti_plain_rwlock_unlock(&others);
}

static void before_fork(void)
{
    sti_plain_rwlock_wrlock(&others);
    for (struct sti_quiet_lock *lock = locks; lock != NULL; lock = lock->next)
        sti_plain_mutex_lock(&lock->mutex);
}

static void unlock_all(void)
{
    for (struct sti_quiet_lock *lock = locks; lock != NULL; lock = lock->next)
        sti_plain_mutex_unlock(&lock->mutex);
}

static void after_fork_in_parent(void)
{
    unlock_all();
    sti_plain_rwlock_unlock(&others);
}

static void after_fork_in_child(void)
{
    unlock_all();
    others = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
