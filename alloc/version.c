/* SPDX-License-Identifier: MIT
 *
 * Which stint this is. Any thread. */
#include <stint/version.h>

#include "backend.h"

const char *stint_version(void)
{
    return STINT_VERSION;
}

int stint_backend_version(void)
{
    return sti_backend_version();
}

bool stint_overrides_malloc(void)
{
    return STI_OVERRIDES;
}
