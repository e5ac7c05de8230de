/* SPDX-License-Identifier: MIT
 *
 * The metered allocation functions under names of their own. They exist in every build; where the library replaces
 * malloc (see stint_malloc_is_overridden), malloc and its family are the same functions. Inside a scope blocks come
 * from the task's heap, outside from the process's. A block may be freed, grown or measured from any thread.
 *
 * Semantics are those of the C library's functions of the same name. Two things that those leave open: stint_malloc(0)
 * and stint_realloc(p, 0) return a block that can be freed, and NULL always comes with errno ENOMEM (EINVAL for an
 * alignment that is no power of two): there is no memory, or the task's budget is spent. Any thread; not from signal
 * handlers. Each may be where an interrupt is delivered. */
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

/* Give free memory back to the system: the process's, and what the calling thread keeps for its next tasks. Without
 * this call that happens some time later, and when a worker of a pool has been idle for a tenth of a second. pad is
 * ignored. Returns 1. Any thread. */
STINT_API int stint_malloc_trim(size_t pad);

STINT_END_DECLS

#endif
