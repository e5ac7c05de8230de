/* SPDX-License-Identifier: MIT
 *
 * A profile at one moment, which the writers of its formats write. One thread. Those and what they need are in the
 * module of profile_writer.h. */
#ifndef STI_ALLOC_PROFILE_SNAPSHOT_H
#define STI_ALLOC_PROFILE_SNAPSHOT_H

#include <stint/profile.h>

#include "profile_gather.h"

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

#endif
