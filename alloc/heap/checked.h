/* SPDX-License-Identifier: MIT
 *
 * Debug mode's record of blocks: whoever frees what is none, or frees one twice, is told, and the process ends. Any
 * thread. */
#ifndef STI_ALLOC_HEAP_CHECKED_H
#define STI_ALLOC_HEAP_CHECKED_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/backend.h"

/* At start, in debug mode: from now on every block is recorded as it is made. The function behind free (free.h) asks
 * here from then on. */
void sti_checked_start(void);

/* Is that so? Constant from the start on. */
extern bool sti_checked_is_on __attribute__((visibility("hidden")));

/* The block has been made for this caller; NULL: it could not be. The block. */
void *sti_checked_made(void *block, size_t size, const void *caller);

#define sti_checked_new(block, size, caller)                                                                           \
    (__builtin_expect(sti_checked_is_on, 0) ? sti_checked_made((block), (size), (caller)) : (block))

/* This caller wants to free it, or to have another in its place: as far as is known, it is a live block. Does not
 * return otherwise. */
void sti_checked_expect(const void *block, const void *caller);

/* It is about to be freed: the same, and it is no live block any more. */
void sti_checked_free(const void *block, const void *caller);

/* The block is about to go, as its task is rolled back; or all that live in the heap, on its thread. An aligned one is
 * not found by where mimalloc has it begin: then it is taken to live until its memory is another's. */
void sti_checked_roll_back(const void *block);
void sti_checked_roll_back_heap(sti_backend_theap *theap);

#endif
