/* SPDX-License-Identifier: MIT
 *
 * Traces: what every thread did and when, in the JSON trace-event format of Chrome, which Perfetto (ui.perfetto.dev),
 * Chrome itself and others show as a picture. Threads are tracks; tasks, stolen subtasks, rollbacks and sleeps are
 * slices on them, with what came of each as arguments; submissions, steals and wake-ups are flows, arrows from one
 * track to another. docs/tracing.md says what is in it, and what it costs.
 *
 * With no change of code: STINT_TRACE=path in the environment starts a trace with the program and completes it when
 * that ends; %p in the path becomes the process's number, and a file that was there is replaced. An error has no caller
 * to go to in that case: it is one line on standard error. The children of the process have no trace, unless they
 * execute a program.
 *
 * Each thread writes what happens on it into a ring of its own, without a lock, and a thread of the library's own
 * formats and writes it, as the tracers of operating systems do (Linux's ftrace, LTTng; the format: Google's "Trace
 * Event Format"). It takes a twentieth of one processor at most. Where events come faster than that, the ring is full
 * and they are left out: never half a slice; and how many were is said where they are missing, and at the end. */
#ifndef STINT_TRACE_H
#define STINT_TRACE_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Start a trace that is written to a descriptor, which stays the caller's and has to stay open until stint_trace_stop.
 * Where it is closed all the same, and its number given to another file, that is not written to: the trace ends there
 * with EBADF, and so does that of STINT_TRACE in a program that closes all descriptors. There is one trace in a
 * process. In a child of fork(2) it has ended, and the descriptor is not written to.
 *
 * What has begun before, and what the child of a fork(2) does, is not in it. Times are those of CLOCK_MONOTONIC. Of the
 * names of tasks 31 bytes count; where there is none it is the module of the task's function and the place in that.
 * Each thread of which something is written has a ring of 512 KiB from the process's heap, kept for the next trace; it
 * is charged to no task.
 *
 * 0; EINVAL: it is no descriptor that can be written to; EBUSY: a trace runs; ENOMEM, EAGAIN: no thread could be
 * started. Any thread, in tasks too; not from signal handlers. */
STINT_API int stint_trace_start(int fd);

/* Stop the trace: write what is there and complete it. Slices that have not ended end there, marked as unfinished.
 * Waits as write() does where the descriptor blocks.
 *
 * 0; EINVAL: none runs, or it is being stopped; or the first error of write() (ENOSPC, EFBIG, EPIPE, EAGAIN where the
 * descriptor does not block, and so on): then what had been written before it is there, and nothing more of the trace;
 * the trace has ended all the same, and no task has noticed. Any thread, in tasks too, where an interrupt that comes
 * meanwhile waits for the end of the call; not from signal handlers. */
STINT_API int stint_trace_stop(void);

STINT_END_DECLS

#endif
