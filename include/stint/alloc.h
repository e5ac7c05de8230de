/* SPDX-License-Identifier: MIT
 *
 * The metered allocation functions under names of their own. They exist in every build; where the library replaces
 * malloc (see stint_malloc_is_overridden), malloc and its family are the same functions. Inside a scope blocks come
 * from the task's heap, outside from the process's. A block may be freed, grown or measured from any thread.
 *
 * Semantics are those of the C library's functions of the same name, with two notes: stint_malloc(0) and
 * stint_realloc(p, 0) return a block that can be freed, and a NULL always comes with errno ENOMEM (EINVAL for an
 * alignment that is no power of two). Any thread; not from signal handlers. Each may be where an interrupt is
 * delivered. */
#ifndef STINT_ALLOC_H
#define STINT_ALLOC_H

#include <stint/api.h>

STINT_BEGIN_DECLS

STINT_API void *stint_malloc(size_t size);
STINT_API void *stint_calloc(size_t count, size_t size);
STINT_API void *stint_realloc(void *block, size_t size);
STINT_API void *stint_reallocarray(void *block, size_t count, size_t size);
STINT_API void *stint_aligned_alloc(size_t alignment, size_t size);
STINT_API int stint_posix_memalign(void **block, size_t alignment, size_t size);
STINT_API void stint_free(void *block);
STINT_API size_t stint_malloc_usable_size(const void *block);
STINT_API char *stint_strdup(const char *string);
STINT_API char *stint_strndup(const char *string, size_t length);

/* Give what is free back to the system: of the process, and what the calling thread holds for its next tasks. Else that
 * happens some time later, and when a pool's worker has been idle for a tenth of a second. pad is ignored; always 1. */
STINT_API int stint_malloc_trim(size_t pad);

STINT_END_DECLS

#endif
