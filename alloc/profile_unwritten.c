/* SPDX-License-Identifier: MIT
 *
 * In place of the writing of profiles, where the libraries for it are missing. */
#include <errno.h>

#include "profile_write.h"

int sti_profile_prepare(struct sti_profile_means *means)
{
    (void)means;
    return ENOTSUP;
}

int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      int fd, stint_profile_kind kind)
{
    (void)means;
    (void)gathered;
    (void)duration;
    (void)fd;
    (void)kind;
    return ENOTSUP;
}

const void *sti_profile_module(void)
{
    return NULL;
}
