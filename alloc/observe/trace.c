/* SPDX-License-Identifier: MIT
 *
 * stint_trace_start and stint_trace_stop, the tracer's thread, and STINT_TRACE in the environment (stint/observe.h).
 * Any thread.
 *
 * A thread that starts or stops the trace says so in state, which is all that two callers share:
 *
 *   IDLE --start--> CHANGING --> RUNNING --stop--> CHANGING --> IDLE
 *
 * Release, acquire: the next one finds what the last one has left. The tracer's thread alone reads rings and writes to
 * the descriptor; stop waits for its end. No lock is held by anybody meanwhile, so a fork(2) waits for nothing here:
 * its child is IDLE, and nobody in it writes to the descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <stint/observe.h>
#include <string.h>
#include <unistd.h>

#include "alloc/interrupt/output.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/link.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/system.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "trace.h"
#include "trace_write.h"

enum state { IDLE, CHANGING, RUNNING };

static atomic_int state;
STI_TABLE struct sti_trace_file sti_trace_current;
static pthread_t tracer;
static sem_t stopped;
static unsigned last_epoch;

/* --- The tracer's thread. ----------------------------------------------------------------------------------------- */

/* The tracer takes a fortieth of one processor at most, in any few milliseconds: so much a pool's throughput falls by,
 * where every processor is busy; and looks often enough that a ring is not full of a busy worker's tasks before. By its
 * processor time: a reader that has kept it waiting, or others on its processor, cost nobody anything. */
#define SHARE 40
#define AT_ONCE 1024 /* records */
#define MIN_REST_NS UINT64_C(5000000)

static bool sleep_after(uint64_t worked)
{
    uint64_t rest = worked * (SHARE - 1);
    uint64_t until = sti_clock_now() + (rest > MIN_REST_NS ? rest : MIN_REST_NS);
    struct timespec time = { .tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000) };
    int result;
    sti_service_rests();
    while ((result = sem_clockwait(&stopped, CLOCK_MONOTONIC, &time)) != 0 && errno == EINTR)
        ;
    sti_service_works();
    return result != 0;
}

/* When it has been stopped: once more, for what others have published meanwhile that belongs to what has been read. */
static void tracer_finish(void)
{
    sti_trace_file_drain(&sti_trace_current, SIZE_MAX);
    sti_trace_current.closing = true;
    sti_trace_file_drain(&sti_trace_current, SIZE_MAX);
    sti_trace_file_write_end(&sti_trace_current);
}

/* As the last thread of all it ends: then libc ends the process on it, as it would without a trace; or on another of
 * the library's, which was found to be one of the last as well. The thread that stops the trace then has to finish; the
 * return value says so. */
static void *tracer_run(void *unused)
{
    (void)unused;
    uint64_t began;
    uint64_t events;
    sti_service_works();
    pthread_setname_np(pthread_self(), "stint-trace");
    sti_trace_file_write_head(&sti_trace_current);
    do {
        began = sti_clock_read(CLOCK_THREAD_CPUTIME_ID);
        events = sti_trace_current.events;
        sti_trace_file_drain(&sti_trace_current, AT_ONCE);
        if (sti_trace_current.events == events && sti_services_are_alone()) {
            sti_service_rests();
            sti_service_end();
            return &sti_trace_current;
        }
    } while (sleep_after(sti_clock_read(CLOCK_THREAD_CPUTIME_ID) - began));
    tracer_finish();
    sti_service_rests();
    sti_service_end();
    return NULL;
}

/* --- Start and stop. ---------------------------------------------------------------------------------------------- */

static bool tracer_change(int from)
{
    return atomic_compare_exchange_strong_explicit(&state, &from, CHANGING, memory_order_acquire, memory_order_relaxed);
}

static void tracer_become(int next)
{
    atomic_store_explicit(&state, next, memory_order_release);
}

static void tracer_observe(unsigned epoch)
{
    if (epoch != 0) {
        atomic_store_explicit(&sti_trace_epoch, epoch, memory_order_relaxed);
        atomic_fetch_or_explicit(&sti_scopes_observed, STI_OBSERVED_TRACE, memory_order_relaxed);
        atomic_fetch_or_explicit(&sti_tasks_observed, STI_OBSERVED_TRACE, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&sti_scopes_observed, ~(unsigned)STI_OBSERVED_TRACE, memory_order_relaxed);
        atomic_fetch_and_explicit(&sti_tasks_observed, ~(unsigned)STI_OBSERVED_TRACE, memory_order_relaxed);
        atomic_store_explicit(&sti_trace_epoch, 0, memory_order_relaxed);
    }
}

static bool is_observed(void)
{
    unsigned observed = atomic_load_explicit(&sti_scopes_observed, memory_order_relaxed) |
                        atomic_load_explicit(&sti_tasks_observed, memory_order_relaxed);
    return (observed & STI_OBSERVED_TRACE) != 0 || atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed) != 0;
}

static bool can_be_written(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY;
}

static int tracer_start(int fd)
{
    if (!tracer_change(IDLE))
        return EBUSY;
    if (++last_epoch == 0)
        last_epoch = 1;
    int error = sti_trace_file_begin(&sti_trace_current, fd, last_epoch);
    if (error == 0) {
        sem_init(&stopped, 0, 0);
        error = sti_service_start(&tracer, tracer_run);
    }
    if (error == 0)
        tracer_observe(last_epoch);
    tracer_become(error == 0 ? RUNNING : IDLE);
    return error;
}

int stint_trace_start(int fd)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    int saved_errno = errno;
    stint_mask();
    int error = sti_backend_check(); /* first here: memprof.c */
    if (error == 0)
        error = can_be_written(fd) ? tracer_start(fd) : EINVAL;
    errno = saved_errno;
    stint_unmask();
    return error;
}

static int tracer_stop(void)
{
    if (!tracer_change(RUNNING))
        return EINVAL;
    if (sti_trace_current.pid != getpid()) { /* a fork that tells nobody: _Fork, clone */
        sti_trace_in_child();
        return EINVAL;
    }
    tracer_observe(0);
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    sem_post(&stopped);
    void *unfinished = &sti_trace_current; /* as on the tracer itself, at the end of the process */
    if (!pthread_equal(tracer, pthread_self()))
        pthread_join(tracer, &unfinished);
    if (unfinished != NULL)
        tracer_finish();
    sti_thread_set_cancellation(cancellation);
    sem_destroy(&stopped);
    int error = sti_trace_current.error;
    tracer_become(IDLE);
    return error;
}

int stint_trace_stop(void)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    int saved_errno = errno;
    stint_mask();
    int error = tracer_stop();
    errno = saved_errno;
    stint_unmask();
    return error;
}

/* --- STINT_TRACE=path. -------------------------------------------------------------------------------------------- */

#define VARIABLE "STINT_TRACE"

#define FIRST_FREE (STDERR_FILENO + 1)

static char *path;
static int descriptor = -1; /* of the trace that the variable has started, in this process */

STI_FORK_HANDLER void sti_trace_in_child(void)
{
    if (is_observed())
        tracer_observe(0);
    STI_SET_IN_CHILD(state, IDLE);
    if (descriptor >= 0)
        descriptor = -1;
}

/* Not in the place of a standard stream that is closed: what the program writes there would be in the trace. */
static int trace_open_file(void)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || fd >= FIRST_FREE)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    close(fd);
    return moved;
}

void sti_trace_ask_environment(void)
{
    const char *value = secure_getenv(VARIABLE);
    if (value == NULL || value[0] == '\0')
        return;
    path = sti_environment_path(value);
    int error = path != NULL ? 0 : ENOMEM;
    if (error == 0 && (descriptor = trace_open_file()) < 0)
        error = errno;
    if (error == 0)
        error = stint_trace_start(descriptor);
    if (error != 0) {
        sti_environment_complain(VARIABLE, value, strerror(error));
        descriptor = -1;
    }
}

__attribute__((destructor)) static void trace_stop_at_exit(void)
{
    if (descriptor < 0)
        return;
    int error = stint_trace_stop();
    if (descriptor < 0) /* nor had this process one */
        return;
    if (error == EINVAL) /* the program has stopped it itself */
        error = 0;
    if (error != EBADF && close(descriptor) != 0 && error == 0) /* it may be the program's now */
        error = errno;
    if (error != 0)
        sti_environment_complain(VARIABLE, path, strerror(error));
}
