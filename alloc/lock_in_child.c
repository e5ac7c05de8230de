/* SPDX-License-Identifier: MIT
 *
 * mimalloc's locks in the child of a fork; see lock_in_child.h.
 *
 * What such a lock protects is whole enough: the lists of heaps, and of what each thread has of them, are not changed during a
 * fork (quiet.h); the others guard that a table or an arena is made once, which is stored last.
 *
 * libc writes the owner into a lock after it is taken, and takes it out before it is released. So one without an owner is
 * waited for: for longer than a living thread is between two instructions. */
#include "lock_in_child.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "plain_lock.h"
#include "quiet.h"

#define PATIENCE_MS 1000

/* Two who find the same must not release it twice: the second finds that the first has it. */
static struct sti_quiet_lock one_at_a_time = STI_QUIET_LOCK_INIT;

static bool is_of_backend(const void *caller)
{
    struct dl_find_object ours;
    return caller != NULL && _dl_find_object((void *)(uintptr_t)sti_backend_address(), &ours) == 0 &&
           caller >= ours.dlfo_map_start && caller < ours.dlfo_map_end;
}

static bool is_held(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE) != 0;
}

static int owner_of(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
}

static bool is_gone(int owner)
{
    int saved_errno = errno;
    bool gone = tgkill(getpid(), owner, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

/* Its owner is not there, or there has been none for long. */
static bool is_left(const pthread_mutex_t *mutex)
{
    static const struct timespec nap = { .tv_nsec = 1000000 };
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (!is_held(mutex))
            return false;
        int owner = owner_of(mutex);
        if (owner != 0)
            return is_gone(owner);
        nanosleep(&nap, NULL);
    }
    return true;
}

void sti_lock_in_child(pthread_mutex_t *mutex, const void *caller)
{
    if (mutex == &one_at_a_time.mutex || !is_held(mutex) || !is_of_backend(caller))
        return;
    sti_plain_mutex_lock(&one_at_a_time.mutex);
    if (is_left(mutex))
        *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    sti_plain_mutex_unlock(&one_at_a_time.mutex);
}

/* The child may fork, too. */
__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&one_at_a_time);
}
