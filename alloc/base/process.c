/* SPDX-License-Identifier: MIT
 *
 * What belongs to the whole process: memory for the library's own records, and locks over a fork(2); see process.h. Any
 * thread. */
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "assumption.h"
#include "backend.h"
#include "module.h"

/* --- Memory for the library's own records. --- */

void *sti_process_malloc(size_t size)
{
    return sti_backend_malloc(size);
}

void *sti_process_calloc(size_t count, size_t size)
{
    size_t total;
    void *block = __builtin_mul_overflow(count, size, &total) ? NULL : sti_process_malloc(total);
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *sti_process_realloc(void *block, size_t size)
{
    return sti_backend_realloc(block, size);
}

void *sti_process_aligned(size_t alignment, size_t size)
{
    return sti_backend_aligned(alignment, size);
}

void sti_process_free(void *block)
{
    sti_backend_free(block);
}

void *sti_process_lasting_malloc(size_t size)
{
    return sti_process_malloc(size);
}

void *sti_process_lasting_calloc(size_t count, size_t size)
{
    return sti_process_calloc(count, size);
}

void *sti_process_lasting_realloc(void *block, size_t size)
{
    return sti_process_realloc(block, size);
}

void *sti_process_lasting_aligned(size_t alignment, size_t size)
{
    return sti_process_aligned(alignment, size);
}

/* --- Waiting, before a fork(2), for what must not be under way in it. Any thread.
 *
 * A thread that is in the loader, or in mimalloc's lists of heaps, has the read side of a lock, and a fork(2) the write
 * side, which goes first where both wait: or threads that roll back one task after another would never let one happen.
 * A thread that waits for either at a fork(2) is not there in the child; so the child's lock is a new one. */

STI_AT_FORKS struct sti_quiet_mutex sti_quiet_locks[STI_QUIET_LOCKS] = { [0 ... STI_QUIET_LOCKS -
                                                                          1] = { PTHREAD_MUTEX_INITIALIZER } };

static STI_AT_FORKS pthread_rwlock_t others = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void sti_quiet_enter(void)
{
    sti_plain_rwlock_rdlock(&others);
}

void sti_quiet_leave(void)
{
    sti_plain_rwlock_unlock(&others);
}

/* --- Giving back. mimalloc has one thread at a time give free pages to the system, and does not do what another asks
 * for meanwhile, nor later if nobody allocates any more. So one of ours at a time asks it, until nobody has asked that
 * one meanwhile:
 *
 *   AT_REST    -> COLLECTING   who does that asks mimalloc
 *   COLLECTING -> ASKED        by one who comes meanwhile and has freed all that it has; then it goes away
 *   ASKED      -> COLLECTING   by the one who asks mimalloc, which it does again
 *   COLLECTING -> AT_REST      by the same
 *
 * Each is a read-modify-write, acquire and release: what was freed before ASKED is seen by what mimalloc is asked for
 * after it. tests/models/collect.pml searches the states. None is under way in the child of a fork(2): each is inside
 * of sti_quiet_enter(). What mimalloc does of itself at that moment, in a thread that allocates, we cannot see; such a
 * thread comes back to it. */

enum { AT_REST, COLLECTING, ASKED };
static atomic_int collecting;

static bool move_on(int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&collecting, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* False: somebody collects, and will do it once more. */
static bool begin_collecting(void)
{
    if (move_on(AT_REST, COLLECTING))
        return true;
    sti_backend_thread_collect();
    for (;;) {
        if (move_on(COLLECTING, ASKED) || move_on(ASKED, ASKED))
            return false;
        if (move_on(AT_REST, COLLECTING))
            return true;
    }
}

void sti_process_collect(void)
{
    sti_quiet_enter();
    if (begin_collecting()) {
        do
            sti_backend_process_collect();
        while (move_on(ASKED, COLLECTING) || !move_on(COLLECTING, AT_REST));
    }
    sti_quiet_leave();
}

bool sti_process_has_one_thread(void)
{
    return __libc_single_threaded != 0;
}

_Thread_local bool sti_fork_takes_locks;

STI_FORK_HANDLER void sti_quiet_before_fork(void)
{
    if (!sti_fork_takes_locks)
        return;
    sti_plain_rwlock_wrlock(&others);
    for (size_t i = 0; i < STI_QUIET_LOCKS; i++)
        sti_plain_mutex_lock(&sti_quiet_locks[i].mutex);
}

static STI_FORK_HANDLER void unlock_all(void)
{
    for (size_t i = 0; i < STI_QUIET_LOCKS; i++)
        sti_plain_mutex_unlock(&sti_quiet_locks[i].mutex);
}

STI_FORK_HANDLER void sti_quiet_after_fork(void)
{
    if (!sti_fork_takes_locks)
        return;
    unlock_all();
    sti_plain_rwlock_unlock(&others);
}

STI_FORK_HANDLER void sti_quiet_in_child(void)
{
    if (!sti_fork_takes_locks)
        return;
    unlock_all();
    others = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

/* --- mimalloc's locks in the child of a fork(2).
 *
 * What such a lock protects is whole enough: the lists of heaps, and of what each thread has of them, are not changed
 * during a fork(2) (process.h); the others guard that a table or an arena is made once, which is stored last.
 *
 * libc writes the owner into a lock after it is taken, and takes it out before it is released. So one without an owner
 * is waited for: for longer than a living thread is between two instructions. */

#define PATIENCE_MS 1000

/* Two who find the same must not release it twice: the second finds that the first has it. */
static pthread_mutex_t *const one_at_a_time = &sti_quiet_locks[STI_QUIET_BACKEND].mutex;

static bool is_of_backend(const void *caller)
{
    struct dl_find_object ours;
    return caller != NULL && _dl_find_object((void *)(uintptr_t)sti_backend_address(), &ours) == 0 &&
           caller >= ours.dlfo_map_start && caller < ours.dlfo_map_end;
}

bool sti_mutex_is_held(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE) != 0;
}

int sti_mutex_owner(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
}

bool sti_process_thread_is_gone(int id)
{
    int saved_errno = errno;
    bool gone = tgkill(getpid(), id, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

/* Its owner is not there, or there has been none for long. */
static bool is_left(const pthread_mutex_t *mutex)
{
    static const struct timespec nap = { .tv_nsec = 1000000 };
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (!sti_mutex_is_held(mutex))
            return false;
        int owner = sti_mutex_owner(mutex);
        if (owner != 0)
            return sti_process_thread_is_gone(owner);
        syscall(SYS_nanosleep, &nap, NULL); /* libc's is a place where threads are cancelled */
    }
    return true;
}

void sti_lock_in_child(pthread_mutex_t *mutex, const void *caller)
{
    if (mutex == one_at_a_time || sti_assumption_fails(STI_ASSUMED_MUTEX) || !sti_mutex_is_held(mutex) ||
        !is_of_backend(caller))
        return;
    sti_plain_mutex_lock(one_at_a_time);
    if (is_left(mutex))
        *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    sti_plain_mutex_unlock(one_at_a_time);
}
