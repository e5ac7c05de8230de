/* SPDX-License-Identifier: MIT
 *
 * The lock of an object of the program's; see object_lock.h. Any thread. */
#include "object_lock.h"

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/rollback/free.h"

static pthread_mutex_t *const renewing = &sti_quiet_locks[STI_QUIET_OBJECTS].mutex;

void sti_object_lock_init(struct sti_object_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
    atomic_init(&lock->forks, sti_freeing_forks());
}

void sti_object_lock_end(struct sti_object_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

/* Who had it in the parent is not there. Threads of the child that find this at once have it made anew once. */
static __attribute__((noinline)) void renew(struct sti_object_lock *lock)
{
    sti_plain_mutex_lock(renewing);
    if (atomic_load_explicit(&lock->forks, memory_order_relaxed) != sti_freeing_forks()) {
        pthread_mutex_init(&lock->mutex, NULL);
        /* release: whoever sees it, by an acquire, sees the mutex as it is now. */
        atomic_store_explicit(&lock->forks, sti_freeing_forks(), memory_order_release);
    }
    sti_plain_mutex_unlock(renewing);
}

void sti_object_lock_take(struct sti_object_lock *lock)
{
    if (__builtin_expect(atomic_load_explicit(&lock->forks, memory_order_acquire) != sti_freeing_forks(), 0))
        renew(lock);
    sti_plain_mutex_lock(&lock->mutex);
}

void sti_object_lock_give(struct sti_object_lock *lock)
{
    sti_plain_mutex_unlock(&lock->mutex);
}
