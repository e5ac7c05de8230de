/* SPDX-License-Identifier: MIT
 *
 * The writing of what was gathered, built only where the libraries for it are. Thread of the caller, while sampling and
 * charging are off. */
#ifndef STI_ALLOC_PROFILE_WRITE_H
#define STI_ALLOC_PROFILE_WRITE_H

#include <stint/profile.h>

#include "profile_gather.h"

/* A profile that took so many nanoseconds. 0; EINVAL, ENOTSUP, ENOMEM, and what write() reports. */
int sti_profile_write(const struct sti_gathered *gathered, uint64_t duration, int fd, stint_profile_kind kind);

#endif
