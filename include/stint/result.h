/* SPDX-License-Identifier: MIT
 *
 * Blocks that are a task's result. What a task allocates with malloc lies, once it has grown past some KiB, in pages of
 * its own, and a small block that is left there keeps a page of 64 KiB, and the heap's record, from all other use.
 * What these functions make lies packed with what other tasks on the same thread have left: a hundred thousand results
 * of 32 bytes take 4 MB. One of more than 80 KiB is made as stint_malloc makes it.
 *
 * In everything else such a block is like any other of the task: charged to its budget, the task's as long as it runs,
 * rolled back with it if it does not end Ok, and valid after that if it does; one of an inner scope is then the outer
 * one's. It may be freed on any thread, at any time, with free (where the library replaces it) or stint_free. Outside
 * of all scopes, and in a subtask that another thread took, or a task that is wiped, these functions are stint_malloc
 * and its family.
 *
 * The idea is from regions with an outliving parent, as in APR's pools: what is handed up is allocated up.
 *
 * Any thread; not from signal handlers. Each may be where an interrupt is delivered. NULL comes with errno ENOMEM. */
#ifndef STINT_RESULT_H
#define STINT_RESULT_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* size bytes, aligned as malloc's. A size of 0 gives a block that can be freed. */
STINT_API void *stint_result_malloc(size_t size);

/* count times size bytes of zeros. ENOMEM also if the product does not fit in a size_t. */
STINT_API void *stint_result_calloc(size_t count, size_t size);

/* A block of size bytes with the contents of the given one, which is freed. That may be any block of malloc's family,
 * so this turns one into a result. A NULL block: as stint_result_malloc. When NULL is returned the given block is left
 * as it is. */
STINT_API void *stint_result_realloc(void *block, size_t size);

/* A copy of the string. */
STINT_API char *stint_result_strdup(const char *string);

STINT_END_DECLS

#endif
