/* SPDX-License-Identifier: MIT
 *
 * In place of the writing of profiles, where the libraries for it are missing. */
#include "profile_write.h"

#include <errno.h>

int sti_profile_write(const struct sti_gathered *gathered, uint64_t duration, int fd, stint_profile_kind kind)
{
    (void)gathered;
    (void)duration;
    (void)fd;
    (void)kind;
    return ENOTSUP;
}
