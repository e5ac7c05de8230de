/* SPDX-License-Identifier: MIT
 *
 * Overrides of semaphores. Any thread. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stint/api.h>
#include <string.h>

#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/hold.h"
#include "semaphore.h"

/* --- Overrides of POSIX semaphores, so that no task is interrupted while it holds one. One that begins above 0 is a
 * lock, or counts things to be had: a waiter posts it again. One that begins at 0 tells of an event, and a waiter for
 * that holds nothing. So those that begin above 0 are marked, in bytes of the structure that libc leaves alone. (The
 * waits for one are scope/override_wait.c's.) Any thread; to post one, in signal handlers too. */

STINT_API int sem_init(sem_t *semaphore, int shared, unsigned value);
STINT_API sem_t *sem_open(const char *name, int flags, ...);
STINT_API int sem_trywait(sem_t *semaphore);
STINT_API int sem_post(sem_t *semaphore);

#define MARK UINT64_C(0x6b636f6c746e6974)
#define MARK_AT 24 /* libc's own part of it is 16 bytes */
_Static_assert(sizeof(sem_t) == MARK_AT + sizeof(uint64_t), "the mark is its end");

static void mark(sem_t *semaphore, bool is_lock)
{
    const uint64_t value = is_lock ? MARK : 0;
    memcpy((char *)semaphore + MARK_AT, &value, sizeof value);
}

static bool is_lock(const sem_t *semaphore)
{
    uint64_t value;
    memcpy(&value, (const char *)semaphore + MARK_AT, sizeof value);
    return value == MARK;
}

int sem_init(sem_t *semaphore, int shared, unsigned value)
{
    STI_LIBC_FUNCTION(sem_init)
    int result = plain(semaphore, shared, value);
    if (result == 0)
        mark(semaphore, value > 0);
    return result;
}

/* Its maker and its finder call it with the same value. */
sem_t *sem_open(const char *name, int flags, ...)
{
    STI_LIBC_FUNCTION(sem_open)
    mode_t mode = 0;
    unsigned value = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        value = va_arg(arguments, unsigned);
        va_end(arguments);
    }
    sem_t *semaphore = plain(name, flags, mode, value);
    if (semaphore == SEM_FAILED)
        return semaphore;
    if (value > 0)
        mark(semaphore, true);
    return semaphore;
}

/* Where there is no more room for its name, it is not held: it could not be found again. */
void sti_semaphore_note_taken(const sem_t *semaphore)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && is_lock(semaphore) && thread->scope->holds.named < STI_HOLD_REMEMBERED)
        sti_scope_take_hold(thread->scope, sti_hold_of_kind(semaphore, STI_HOLD_SEMAPHORE));
}

int sem_trywait(sem_t *semaphore)
{
    STI_LIBC_FUNCTION(sem_trywait)
    int result = plain(semaphore);
    if (result == 0)
        sti_semaphore_note_taken(semaphore);
    return result;
}

/* It may be gone when it has been posted. */
int sem_post(sem_t *semaphore)
{
    STI_LIBC_FUNCTION(sem_post)
    struct sti_thread *thread = sti_thread_metered;
    bool releases = thread != NULL && is_lock(semaphore);
    int result = plain(semaphore);
    if (releases && result == 0)
        sti_hold_release_named(thread->scope, sti_hold_of_kind(semaphore, STI_HOLD_SEMAPHORE));
    return result;
}
