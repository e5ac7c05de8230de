/* SPDX-License-Identifier: MIT
 *
 * Which stint this is: the headers' version as macros, the linked library's by a call. */
#ifndef STINT_VERSION_H
#define STINT_VERSION_H

#include <stint/api.h>

#define STINT_VERSION_MAJOR 0
#define STINT_VERSION_MINOR 1
#define STINT_VERSION_PATCH 0
#define STINT_VERSION "0.1.0"

STINT_BEGIN_DECLS

/* The version of the library that is linked, for instance "0.1.0". Any thread. */
STINT_API const char *stint_version(void);

/* The version of mimalloc behind the heaps, in mimalloc's own digits (30601 is 3.6.1): of the one that runs. stint was
 * compiled for 3.3 or later, and where the loader finds one that is older than that or of another major version,
 * stint_run and stint_pool_create return ENOTSUP. Any thread. */
STINT_API int stint_backend_version(void);

/* Whether malloc and its family are replaced in this program, so that libraries which know nothing of stint are
 * metered: those whose malloc is bound by the loader, not those with an allocator of their own (docs/machines.md).
 * False in a build that replaces none, and where the program uses another's (link.h): only the stint_malloc family is
 * metered then. Any thread. */
STINT_API bool stint_malloc_is_overridden(void);

STINT_END_DECLS

#endif
