/* SPDX-License-Identifier: MIT
 *
 * Memory profiles: which code allocates, how much of it is still there, in which task and for which account. Built on
 * the sampling of stint/memprof.h, so it costs little and gives estimates without bias; docs/profiling.md says how to
 * read them. Written in the format of pprof (github.com/google/pprof), or as collapsed stacks, from which Brendan
 * Gregg's flame graphs and those of scripts/flamegraph are drawn.
 *
 * With no change of code: STINT_PROFILE=interval:path in the environment starts a profile with the program, and writes
 * it when the program ends or is sent SIGUSR2. interval is in bytes, or with k or m behind it in KiB or MiB. A path
 * that ends in .collapsed gets collapsed stacks, every other pprof; %p in it becomes the process's number, and a file
 * that was there is replaced when the new one is complete. An error has no caller to go to in that case: it is one line
 * on standard error, the only thing that this library ever prints. The children of the process have no profile, unless
 * they execute a program. A program that ignores or handles SIGUSR2 keeps it. */
#ifndef STINT_PROFILE_H
#define STINT_PROFILE_H

#include <stint/api.h>

#include <stddef.h>
#include <stdint.h>

STINT_BEGIN_DECLS

/* Made by STINT_PROFILE_OPTIONS_INIT; it can grow: stint.h. */
typedef struct stint_profile_options {
    size_t size; /* sizeof(stint_profile_options) */

    /* How often, as in stint_memprof_options: samples a word, or the mean interval in bytes; the other is 0. */
    double rate;
    size_t interval;

    size_t callstack_depth; /* at most STINT_MEMPROF_DEPTH_MAX */
    uint64_t seed;          /* of the random numbers, for tests; 0: another each time */
} stint_profile_options;

/* One sample in 512 KiB, 64 frames. */
/* clang-format off */
#ifdef __cplusplus
#define STINT_PROFILE_OPTIONS_INIT stint_sized_<stint_profile_options>(0.0, (size_t)512 << 10, (size_t)64)
#else
#define STINT_PROFILE_OPTIONS_INIT \
    { .size = sizeof(stint_profile_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
#endif
/* clang-format on */

typedef enum stint_profile_kind {
    STINT_PROFILE_PPROF = 0, /* profile.proto, gzipped: both what was allocated and what is in use */
    STINT_PROFILE_COLLAPSED, /* a line a stack: its functions from the outermost in, and the bytes allocated there */
    STINT_PROFILE_COLLAPSED_INUSE, /* the same with the bytes that are in use */
} stint_profile_kind;

/* Estimates of the whole, without bias. Bytes are what the meter charges (docs/metering.md); outside of tasks, what it
 * would charge. In use: neither freed nor rolled back. Made by STINT_PROFILE_TOTALS_INIT before they are read; they can
 * grow: stint.h. */
typedef struct stint_profile_totals {
    size_t size; /* sizeof(stint_profile_totals) */
    uint64_t alloc_objects;
    uint64_t alloc_bytes;
    uint64_t inuse_objects;
    uint64_t inuse_bytes;
    uint64_t samples; /* that all this rests on: its relative error is about 1 / sqrt(samples) */
    uint64_t lost;    /* samples for whose records there was no memory; they are not in the numbers above */
} stint_profile_totals;

#define STINT_PROFILE_TOTALS_INIT STINT_SIZED_INIT_(stint_profile_totals)

/* Start a profile; what an earlier one gathered is forgotten. options may be NULL: STINT_PROFILE_OPTIONS_INIT. It is a
 * tracker as in stint/memprof.h, of which there is one in a process.
 *
 * 0; EINVAL and E2BIG: as stint_memprof_start; EBUSY: a profile is running, this kind or one of memprof.h; ENOMEM. Any
 * thread. */
STINT_API int stint_profile_start(const stint_profile_options *options);

/* Stop the profile. What it gathered can be read and written until the next start; what was in use remains so.
 *
 * 0; EINVAL: none is running; EDEADLK and EBUSY: as stint_memprof_stop. Any thread. */
STINT_API int stint_profile_stop(void);

/* Read the sums, while the profile runs or after it. They are those of a profile written at this moment.
 *
 * 0; EINVAL: totals is NULL, or has no size, or no profile was started in this process. Any thread. */
STINT_API int stint_profile_read(stint_profile_totals *totals);

/* Write the profile to a descriptor, which stays open, while it runs or after it; other threads go on meanwhile. What
 * this allocates is charged to no task, and not sampled. First the profile is put together in memory, during which an
 * interrupt of the calling task waits: milliseconds to seconds, for the symbols of all modules are read. Then it is
 * written, holding no lock; a task that waits for a reader meanwhile is interrupted as in any wait. The first call
 * loads the part of the library that writes profiles, a module in the folder stint/ beside it, and with that
 * protobuf-c, zlib and libdw; they stay loaded. One profile is put together at a time, a second one waits.
 *
 * 0; EINVAL: no profile was started, or there is no such kind; ENOTSUP: stint was built without profiles, which need
 * protobuf-c, zlib and libdw; ELIBACC: the module, which must be of the same version as the library, or a library that
 * it needs cannot be loaded; EDEADLK: called from a tracker's callback; ENOMEM; ECANCELED: the calling task, in
 * STINT_FAIL, is to stop, and nobody reads; and whatever write() reports (ENOSPC, EBADF, EAGAIN, EPIPE where SIGPIPE is
 * ignored, and so on): then a part of the profile has been written, and it can be written again. Any thread; not from
 * signal handlers. */
STINT_API int stint_profile_write(int fd, stint_profile_kind kind);

STINT_END_DECLS

#endif
