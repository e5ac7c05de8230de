/* SPDX-License-Identifier: MIT
 *
 * The writing of what was gathered. The formats, and the libraries for them, are in a module that is loaded when they
 * are first needed (profile_writer.h); built only where those libraries are. */
#ifndef STI_ALLOC_PROFILE_WRITE_H
#define STI_ALLOC_PROFILE_WRITE_H

#include <stint/profile.h>

#include "profile_gather.h"
#include "profile_writer.h"

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

/* An address in the module; NULL: it has not been loaded. Safe in signal handlers. */
const void *sti_profile_module(void);

#endif
