/* SPDX-License-Identifier: MIT
 *
 * What a profile gathers, its state at one moment, and the module that writes it in its formats. */
#ifndef STI_ALLOC_PROFILE_WRITE_H
#define STI_ALLOC_PROFILE_WRITE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stint/memprof.h>
#include <stint/profile.h>

/* --- What a profile gathers: for each callstack in each task and account, how much was allocated there and how much of
 * it has ended. Filled by a tracker (stint/memprof.h) on any threads at once, and read while it is being filled. */

/* With a name for every request there is no end of sites. Where there are so many, what is new is counted without its
 * names, by its callstack alone; and where callstacks are as many as the second says, together. */
#define STI_PROFILE_NAMED_MAX 8192
#define STI_PROFILE_SITES_MAX 262144

/* Constant but for its numbers, and freed with the whole. */
struct sti_profile_site {
    struct sti_profile_site *next;
    uint64_t hash;
    _Atomic uint64_t samples; /* and these three: see write.c */
    _Atomic uint64_t objects;
    _Atomic uint64_t ended_samples;
    _Atomic uint64_t ended_objects;
    const char *task;    /* NULL: none */
    const char *account; /* NULL: none */
    size_t length;
    void *callstack[]; /* innermost first; then the two names */
};

struct sti_gathered {
    double interval;
    uint64_t started; /* nanoseconds since 1970 */
    uint64_t began;   /* the same moment by CLOCK_MONOTONIC */
    _Atomic uint64_t sites;
    _Atomic uint64_t lost;
    size_t chain_count;
    _Atomic(struct sti_profile_site *) chains[];
};

/* For one profile, whose tracker's arg it is, or for a task's own rate (followed.h). NULL: no memory. To be freed when
 * nothing is followed any more. */
#define STI_PROFILE_CHAINS 16384 /* of a profile */
struct sti_gathered *sti_gathered_create(double interval, size_t chains);
void sti_gathered_free(struct sti_gathered *gathered);

extern const stint_memprof_tracker sti_gathered_tracker;

/* The metadata of a followed block: what the block stands for. */
struct sti_profile_share {
    struct sti_profile_site *site;
    uint64_t samples;
    uint64_t objects; /* in parts of 1/STI_PROFILE_OBJECT */
};

/* Fill in the share of a block with this allocation. False: no memory. */
bool sti_gathered_share(struct sti_gathered *gathered, const stint_memprof_allocation *allocation,
                        struct sti_profile_share *share);

#define STI_PROFILE_OBJECT 65536

/* Estimates for one site, at this moment. */
struct sti_profile_values {
    uint64_t alloc_objects;
    uint64_t alloc_bytes;
    uint64_t inuse_objects;
    uint64_t inuse_bytes;
    uint64_t samples;
};
struct sti_profile_values sti_profile_values(const struct sti_gathered *gathered, const struct sti_profile_site *site);

/* --- A profile at one moment, which the writers of its formats write. One thread. The formats and the libraries that
 * they need are in the module of write.h. */

/* The C++ runtime's demangler: turns a symbol into a readable name. */
typedef char *sti_demangle_fn(const char *name, char *buffer, size_t *size, int *status);

/* A module of another process, whose addresses a report has: one that this process has not loaded, or has elsewhere. */
struct sti_other_module {
    uintptr_t begin; /* in that process's memory */
    uintptr_t end;
    const char *path;
    bool may_be_read; /* its file, for its symbols: the path comes from a trusted source */
};

struct sti_other_modules {
    const struct sti_other_module *list;
    size_t count;
    bool alone; /* no address is one of this process's */
};

struct sti_profile_snapshot {
    sti_demangle_fn *demangle; /* NULL: the process has none */
    struct sti_other_modules others;
    uint64_t started;  /* nanoseconds since 1970 */
    uint64_t duration; /* nanoseconds */
    double interval;
    size_t count;
    struct sti_profile_entry {
        const char *task;    /* NULL: none */
        const char *account; /* NULL: none */
        size_t length;
        void *const *callstack; /* innermost first */
        struct sti_profile_values values;
    } entries[];
};

/* Where the call is that returns to this address. */
static inline uintptr_t sti_profile_call(const void *return_address)
{
    return (uintptr_t)return_address - 1;
}

/* --- What writes profiles, in a module of its own (stint-profile-VERSION.so): so a program loads libdw, libelf,
 * protobuf-c and zlib only when it first writes one. The module calls nothing of this library's but what it is handed.
 * A program that links the inner parts has it linked in. */

/* In the module. 0; ENOMEM; EFBIG. Into memory, one thread at a time, with sampling and charging off. */
typedef int sti_profile_writer_fn(const struct sti_profile_snapshot *snapshot, FILE *stream, stint_profile_kind kind);
sti_profile_writer_fn sti_profile_writer;

/* --- The writing of what was gathered. The formats, and the libraries for them, are in a module that is loaded when
 * they are first needed (write.h); built only where those libraries are. */

struct sti_profile_means {
    void *module; /* NULL: it is linked in */
    sti_demangle_fn *demangle;
};

/* A function of the module, by its name; linked_in: where the module is. NULL: it has none. */
void *sti_profile_find(const struct sti_profile_means *means, const char *name, void *linked_in);

/* Put something into the stream: 0 or an errno value. Masked, with the lock, sampling and charging off. */
typedef int sti_profile_make_fn(const struct sti_profile_means *means, const void *arg, FILE *stream);

/* Write what that makes to a descriptor; then the caller's mask ends (output.h). Any thread, which is to hold no lock:
 * the loader's is taken, and a thread that has that may be in a constructor that waits for ours. 0; EDEADLK: in a
 * callback of a tracker; ENOTSUP: built without; ELIBACC: the module, or a library that it needs, cannot be loaded;
 * ENOMEM; ECANCELED: in STINT_FAIL, the task is interrupted; and what it returns, and write(). */
int sti_profile_output_and_unmask(int fd, pthread_mutex_t *lock, sti_profile_make_fn *make, const void *arg);

/* A profile that took so many nanoseconds. As in a sti_profile_make_fn. */
int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      FILE *stream, stint_profile_kind kind);

#endif
