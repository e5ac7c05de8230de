/* SPDX-License-Identifier: MIT
 *
 * The profile: started, stopped, read, written (stint/profile.h). Any thread. */
#include <errno.h>
#include <pthread.h>
#include <stint/interrupt.h>
#include <stint/profile.h>

#include "clock.h"
#include "memprof_inner.h"
#include "plain_lock.h"
#include "profile_gather.h"
#include "profile_write.h"

#define WORD 8

/* Of whoever replaces what was gathered, or reads it. Nobody waits for a callback while holding it, so that a callback
 * may wait for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sti_gathered *gathered; /* by the last profile */

static atomic_bool running;
static _Atomic uint64_t stopped; /* by CLOCK_MONOTONIC; 0: it runs */

static void lock_masked(void)
{
    stint_mask();
    sti_plain_mutex_lock(&lock);
}

static void unlock_masked(void)
{
    sti_plain_mutex_unlock(&lock);
    stint_unmask();
}

static int start(const stint_profile_options *options)
{
    double interval = options->interval > 0 ? (double)options->interval : WORD / options->rate;
    struct sti_gathered *fresh = sti_gathered_create(interval);
    if (fresh == NULL)
        return ENOMEM;
    stint_memprof_options memprof = {
        .rate = options->rate,
        .interval = options->interval,
        .callstack_depth = options->callstack_depth,
        .tracker = sti_gathered_tracker,
        .arg = fresh,
        .seed = options->seed,
    };
    int error = stint_memprof_start(&memprof);
    if (error != 0) {
        sti_gathered_free(fresh);
        return error;
    }
    /* Of the one before nothing is followed any more, or this one could not have been started. */
    sti_gathered_free(gathered);
    gathered = fresh;
    atomic_store(&stopped, 0);
    atomic_store(&running, true);
    return 0;
}

int stint_profile_start(const stint_profile_options *options)
{
    static const stint_profile_options usual = STINT_PROFILE_OPTIONS_INIT;
    lock_masked();
    int error = start(options != NULL ? options : &usual);
    unlock_masked();
    return error;
}

int stint_profile_stop(void)
{
    if (!atomic_exchange(&running, false))
        return EINVAL;
    int error = stint_memprof_stop();
    if (error == EBUSY)
        atomic_store(&running, true);
    else
        atomic_store(&stopped, sti_clock_now());
    return error;
}

static stint_profile_totals sum_of_all(void)
{
    stint_profile_totals totals = { .lost = atomic_load_explicit(&gathered->lost, memory_order_relaxed) };
    for (size_t i = 0; i < STI_PROFILE_CHAINS; i++) {
        const struct sti_profile_site *site = atomic_load_explicit(&gathered->chains[i], memory_order_acquire);
        for (; site != NULL; site = site->next) {
            struct sti_profile_values values = sti_profile_values(gathered, site);
            totals.alloc_objects += values.alloc_objects;
            totals.alloc_bytes += values.alloc_bytes;
            totals.inuse_objects += values.inuse_objects;
            totals.inuse_bytes += values.inuse_bytes;
            totals.samples += values.samples;
        }
    }
    return totals;
}

int stint_profile_read(stint_profile_totals *totals)
{
    if (totals == NULL)
        return EINVAL;
    lock_masked();
    int error = gathered != NULL ? 0 : EINVAL;
    if (error == 0)
        *totals = sum_of_all();
    unlock_masked();
    return error;
}

/* In this process; from then on it remains so. */
static bool is_started(void)
{
    lock_masked();
    bool started = gathered != NULL;
    unlock_masked();
    return started;
}

static int write_started(int fd, stint_profile_kind kind)
{
    struct sti_profile_means means;
    int error = sti_profile_prepare(&means);
    if (error != 0)
        return error;
    lock_masked();
    uint64_t end = atomic_load(&stopped);
    struct sti_quiet quiet = sti_memprof_be_quiet();
    error = sti_profile_write(&means, gathered, (end != 0 ? end : sti_clock_now()) - gathered->began, fd, kind);
    sti_memprof_end_quiet(&quiet);
    unlock_masked();
    return error;
}

int stint_profile_write(int fd, stint_profile_kind kind)
{
    if ((unsigned)kind > STINT_PROFILE_COLLAPSED_INUSE)
        return EINVAL;
    if (sti_memprof_is_calling())
        return EDEADLK;
    stint_mask();
    int error = is_started() ? write_started(fd, kind) : EINVAL;
    stint_unmask();
    return error;
}

/* The child has no profile. What its parent's gathered is left where it is: another thread may have been about to add
 * to it, and the memory is shared until it is written to. */
static void end_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    gathered = NULL;
    atomic_store(&running, false);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, end_in_child);
}
