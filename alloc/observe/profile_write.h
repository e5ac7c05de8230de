/* SPDX-License-Identifier: MIT
 *
 * A profile at one moment, and the module that writes it in its formats. */
#ifndef STI_ALLOC_OBSERVE_PROFILE_WRITE_H
#define STI_ALLOC_OBSERVE_PROFILE_WRITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stint/observe.h>

#include "gathered.h"

/* --- A profile at one moment, which the writers of its formats write. One thread. The formats and the libraries that
 * they need are in the module of profile_write.h. */

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
 * they are first needed (profile_write.h); built only where those libraries are. */

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
