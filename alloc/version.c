/* SPDX-License-Identifier: MIT
 *
 * Which stint this is, and which mimalloc is behind it. Any thread. */
#include <errno.h>
#include <stint/version.h>

#include "backend.h"
#include "backend_check.h"

#define DIGITS_PER_MAJOR 10000 /* 30601 is 3.6.1 */
#include "linkage.h"

const char *stint_version(void)
{
    return STINT_VERSION;
}

int stint_backend_version(void)
{
    return sti_backend_version();
}

int sti_backend_check(void)
{
    int running = sti_backend_version();
    bool fits = running >= MI_MALLOC_VERSION && running / DIGITS_PER_MAJOR == MI_MALLOC_VERSION / DIGITS_PER_MAJOR;
    return fits ? 0 : ENOTSUP;
}

bool stint_overrides_malloc(void)
{
    return STI_OVERRIDES && sti_link_has_malloc();
}
