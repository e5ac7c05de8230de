/* SPDX-License-Identifier: MIT
 *
 * What a profile gathers: for each callstack in each task and account, how much was allocated there and how much of
 * it has ended. Filled by a tracker (stint/observe.h) on any threads at once, and read while it is being filled. */
#ifndef STI_ALLOC_OBSERVE_GATHERED_H
#define STI_ALLOC_OBSERVE_GATHERED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/observe.h>

/* With a name for every request there is no end of sites. Where there are so many, what is new is counted without its
 * names, by its callstack alone; and where callstacks are as many as the second says, together. */
#define STI_PROFILE_NAMED_MAX 8192
#define STI_PROFILE_SITES_MAX 262144

/* Constant but for its numbers, and freed with the whole. */
struct sti_profile_site {
    struct sti_profile_site *next;
    uint64_t hash;
    _Atomic uint64_t samples; /* and these three: see gathered.c */
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

/* What one followed block stands for, of its metadata. */
struct sti_profile_share {
    struct sti_profile_site *site;
    uint64_t samples;
    uint64_t objects; /* in parts of 1/STI_PROFILE_OBJECT */
};

/* Of a block with this allocation. False: no memory. */
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

#endif
