/* SPDX-License-Identifier: MIT
 *
 * A profile at one moment, the module that writes it in its formats, and what this library needs of that. One thread. */
#ifndef STI_ALLOC_PROFILE_WRITE_H
#define STI_ALLOC_PROFILE_WRITE_H

#include <stint/profile.h>

#include "gather.h"

/* --- A profile at one moment, which the writers of its formats write. One thread. Those and what they need are in the
 * module of write.h. */

/* Of the C++ runtime: a name for people. */
typedef char *sti_demangle_fn(const char *name, char *buffer, size_t *size, int *status);

struct sti_profile_snapshot {
    sti_demangle_fn *demangle; /* NULL: the process has none */
    uint64_t started;  /* nanoseconds since 1970 */
    uint64_t duration; /* nanoseconds */
    double interval;
    size_t count;
    struct sti_profile_entry {
        const struct sti_profile_site *site;
        struct sti_profile_values values;
    } entries[];
};

/* Where the call is that returns to this address. */
static inline uintptr_t sti_profile_call(const void *return_address)
{
    return (uintptr_t)return_address - 1;
}

/* 0, or what went wrong. With sampling and charging off. */
int sti_profile_write_pprof(const struct sti_profile_snapshot *snapshot, int fd);
int sti_profile_write_collapsed(const struct sti_profile_snapshot *snapshot, int fd, stint_profile_kind kind);

struct sti_symbols;

/* The symbols of all callstacks. 0; ENOMEM. */
int sti_profile_symbols(const struct sti_profile_snapshot *snapshot, struct sti_symbols *symbols);

/* --- What writes profiles, in a module of its own (stint-profile-VERSION.so): so a program loads libdw, libelf, protobuf-c
 * and zlib only when it first writes one. The module calls nothing of this library's but what it is handed. A program
 * that links the inner parts has it linked in. */

/* 0, or what went wrong. One thread at a time, with sampling and charging off. */
struct sti_profile_writer {
    int (*write)(const struct sti_profile_snapshot *snapshot, int fd, stint_profile_kind kind);
};

/* In the module, which is found by this name. */
extern const struct sti_profile_writer sti_profile_writer;
#define STI_PROFILE_WRITER "sti_profile_writer"

/* --- The writing of what was gathered. The formats, and the libraries for them, are in a module that is loaded when they
 * are first needed (write.h); built only where those libraries are. */

struct sti_profile_means {
    const struct sti_profile_writer *writer;
    sti_demangle_fn *demangle;
};

/* Find what writing needs. Any thread, masked, which is to hold no lock: the loader's is taken, and who has that may
 * be in a constructor that waits for ours. 0; ENOTSUP; ELIBACC: the module, or a library that it needs, cannot be
 * loaded. */
int sti_profile_prepare(struct sti_profile_means *means);

/* A profile that took so many nanoseconds. Thread of the caller, while sampling and charging are off.
 * 0; ENOMEM, and what write() reports. */
int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      int fd, stint_profile_kind kind);

#endif
