/* SPDX-License-Identifier: MIT
 *
 * stint_profile: what is gathered and written, on call or as the environment asks. Any thread. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <stint/observe.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/interrupt/output.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/system.h"
#include "memprof.h"
#include "profile.h"
#include "profile_write.h"

/* --- The profile: started, stopped, read, written (stint/observe.h). Any thread. --- */

#define WORD 8

/* Held by the thread that replaces what was gathered, or reads it. Nobody waits for a callback while holding it, so
 * that a callback may wait for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sti_gathered *gathered; /* by the last profile */

static atomic_bool running;
static _Atomic uint64_t stopped; /* by CLOCK_MONOTONIC; 0: it runs */

static void lock_masked(void)
{
    stint_mask();
    sti_real_mutex_lock(&lock);
}

static void unlock_masked(void)
{
    sti_real_mutex_unlock(&lock);
    stint_unmask();
}

static int profile_start(const stint_profile_options *options)
{
    double interval = options->interval > 0 ? (double)options->interval : WORD / options->rate;
    struct sti_gathered *fresh = sti_gathered_create(interval, STI_PROFILE_CHAINS);
    if (fresh == NULL)
        return ENOMEM;
    stint_memprof_options memprof = {
        .size = sizeof memprof,
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
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_profile_options taken = STINT_PROFILE_OPTIONS_INIT;
    int error = 0;
    if (options != NULL)
        error = sti_sized_in(&taken, sizeof taken, STI_SIZED_UP_TO(stint_profile_options, seed), options);
    if (error != 0)
        return error;
    lock_masked();
    error = profile_start(&taken);
    unlock_masked();
    return error;
}

int stint_profile_stop(void)
{
    if (sti_process_is_partial())
        return ENOTSUP;
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
    stint_profile_totals totals = { .size = sizeof totals,
                                    .lost = atomic_load_explicit(&gathered->lost, memory_order_relaxed) };
    for (size_t i = 0; i < gathered->chain_count; i++) {
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
    if (sti_process_is_partial())
        return ENOTSUP;
    if (totals == NULL)
        return EINVAL;
    stint_profile_totals now = STINT_PROFILE_TOTALS_INIT;
    lock_masked();
    bool started = gathered != NULL;
    if (started)
        now = sum_of_all();
    unlock_masked();
    return started ? sti_sized_out(totals, STI_SIZED_UP_TO(stint_profile_totals, lost), &now, sizeof now) : EINVAL;
}

/* In this process; from then on it remains so. */
static bool is_started(void)
{
    lock_masked();
    bool started = gathered != NULL;
    unlock_masked();
    return started;
}

static int profile_make(const struct sti_profile_means *means, const void *kind, FILE *stream)
{
    uint64_t end = atomic_load(&stopped);
    uint64_t duration = (end != 0 ? end : sti_clock_now()) - gathered->began;
    return sti_profile_write(means, gathered, duration, stream, *(const stint_profile_kind *)kind);
}

int stint_profile_write(int fd, stint_profile_kind kind)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if ((unsigned)kind > STINT_PROFILE_COLLAPSED_INUSE)
        return EINVAL;
    stint_mask();
    if (sti_memprof_is_calling() || is_started())
        return sti_profile_output_and_unmask(fd, &lock, profile_make, &kind);
    stint_unmask();
    return EINVAL;
}

/* --- STINT_PROFILE=interval:path: a profile of a program that knows nothing of it (stint/observe.h). Begun when this
 * library is loaded; written at the end of the process and, by a thread that waits for it, on SIGUSR2. */

#define VARIABLE "STINT_PROFILE"
#define COLLAPSED ".collapsed"
#define PART ".part"

static char *path;
static pid_t profiled; /* the process, by the variable; 0: none. A child is not, however it was forked (_Fork, clone) */
static sem_t woken;    /* the thread that writes when it is asked to */
static atomic_uint asked;               /* and has not been answered */
static atomic_bool main_may_end = true; /* without a word */

static void profile_complain(const char *about, const char *what)
{
    sti_environment_complain(VARIABLE, about, what);
}

/* 0: it is none. */
static size_t read_interval(const char *text, const char **end)
{
    char *behind;
    errno = 0;
    unsigned long long number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &behind, 10) : 0;
    if (number == 0 || errno != 0)
        return 0;
    unsigned shift = *behind == 'k' || *behind == 'K' ? 10 : *behind == 'm' || *behind == 'M' ? 20 : 0;
    *end = behind + (shift > 0);
    return number <= SIZE_MAX >> shift ? (size_t)number << shift : 0;
}

static stint_profile_kind kind_of_path(void)
{
    size_t length = strlen(path);
    bool collapsed = length > strlen(COLLAPSED) && strcmp(path + length - strlen(COLLAPSED), COLLAPSED) == 0;
    return collapsed ? STINT_PROFILE_COLLAPSED : STINT_PROFILE_PPROF;
}

/* A file appears under its name when it is complete; what is no file, such as a pipe, is written to as it is. */
static int write_to(const char *target)
{
    int fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = stint_profile_write(fd, kind_of_path());
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

static void profile_write(void)
{
    static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
    char part[PATH_MAX + sizeof PART];
    struct stat status;
    bool is_file = stat(path, &status) != 0 || S_ISREG(status.st_mode);
    snprintf(part, sizeof part, "%s%s", path, is_file ? PART : "");
    pthread_mutex_lock(&writing);
    int error = write_to(part);
    if (is_file && error == 0 && rename(part, path) != 0)
        error = errno;
    if (is_file && error != 0)
        unlink(part);
    pthread_mutex_unlock(&writing);
    if (error != 0)
        profile_complain(path, strerror(error));
}

/* --- The thread that waits. Once the main thread has ended, the thread has to look now and then whether it is the last
 * one; until then that keeps the process. So it sleeps until it is asked, where the main thread's end will be told: by
 * the destructor of a key, whose value is set where the main thread loads the library. Handlers of signals post. */

#define LOOK_NS UINT64_C(100000000)
#define LONG_NS UINT64_C(86400000000000)

static void main_thread_ends(void *unused)
{
    (void)unused;
    atomic_store(&main_may_end, true);
    sem_post(&woken);
}

static void hear_of_its_end(void)
{
    pthread_key_t key;
    if (gettid() == getpid() && sti_real_specific_create(&key, main_thread_ends) == 0 &&
        sti_real_specific_set(key, &woken) == 0)
        atomic_store(&main_may_end, false);
}

static void sleep_a_while(void)
{
    uint64_t until = sti_clock_now() + (atomic_load(&main_may_end) ? LOOK_NS : LONG_NS);
    struct timespec time = { .tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000) };
    sem_clockwait(&woken, CLOCK_MONOTONIC, &time);
}

static bool profile_is_last(void)
{
    return atomic_load(&main_may_end) && sti_services_are_alone();
}

/* As the last thread of all it ends: then libc ends the process on it, as it would without a profile. */
static void *write_when_asked(void *arg)
{
    pthread_setname_np(pthread_self(), "stint-profile");
    do {
        sleep_a_while();
        sti_service_works();
        for (; atomic_load(&asked) > 0; atomic_fetch_sub(&asked, 1))
            profile_write();
        sti_service_rests();
    } while (!profile_is_last());
    sti_service_end();
    return arg;
}

static void profile_ask(int signal)
{
    int saved_errno = errno;
    (void)signal;
    atomic_fetch_add(&asked, 1);
    sem_post(&woken);
    errno = saved_errno;
}

static void hear_signal(void)
{
    struct sigaction action;
    pthread_t thread;
    if (sigaction(SIGUSR2, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
        return;
    sem_init(&woken, 0, 0);
    hear_of_its_end();
    int error = sti_service_start(&thread, write_when_asked);
    if (error != 0) {
        profile_complain("SIGUSR2", strerror(error));
        return;
    }
    pthread_detach(thread);
    action = (struct sigaction){ .sa_handler = profile_ask, .sa_flags = SA_RESTART };
    sigaction(SIGUSR2, &action, NULL);
}

/* There is no thread in the child that would answer the signal. */
static STI_FORK_HANDLER void end_writing_in_child(void)
{
    struct sigaction action;
    if (profiled == 0)
        return;
    profiled = 0;
    if (sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == profile_ask)
        signal(SIGUSR2, SIG_DFL);
}

/* The child has no profile. What its parent's gathered is left where it is: the memory is shared until it is written
 * to. */
STI_FORK_HANDLER void sti_profile_in_child(void)
{
    end_writing_in_child();
    if (sti_process_is_partial())
        return;
    if (gathered != NULL)
        gathered = NULL;
    STI_SET_IN_CHILD(running, false);
}

void sti_profile_ask_environment(void)
{
    const char *value = secure_getenv(VARIABLE);
    const char *behind = "";
    if (value == NULL)
        return;
    stint_profile_options options = STINT_PROFILE_OPTIONS_INIT;
    options.interval = read_interval(value, &behind);
    if (options.interval == 0 || behind[0] != ':' || behind[1] == '\0') {
        profile_complain(value, "not of the form interval:path");
        return;
    }
    path = sti_environment_path(behind + 1);
    int error = path != NULL ? stint_profile_start(&options) : ENOMEM;
    if (error != 0) {
        profile_complain(value, strerror(error));
        return;
    }
    profiled = getpid();
    hear_signal();
}

__attribute__((destructor)) static void profile_write_at_exit(void)
{
    if (profiled == getpid())
        profile_write();
}
