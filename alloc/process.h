/* SPDX-License-Identifier: MIT
 *
 * Memory for the library's own records: from the process's heap, charged to nobody, no sample point. Any thread; a block
 * may be freed from any other. */
#ifndef STI_ALLOC_PROCESS_H
#define STI_ALLOC_PROCESS_H

#include <stddef.h>

void *sti_process_malloc(size_t size);
void *sti_process_calloc(size_t count, size_t size);
void *sti_process_realloc(void *block, size_t size);
void *sti_process_aligned(size_t alignment, size_t size); /* uninitialised */
void sti_process_free(void *block);

#endif
