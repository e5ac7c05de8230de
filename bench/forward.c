/* SPDX-License-Identifier: MIT
 *
 * A library that takes malloc's place and only hands each call on to mimalloc: what it costs to stand in between,
 * before anything is counted. */
#include <mimalloc.h>
#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);

void *malloc(size_t size)
{
    return mi_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return mi_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return mi_realloc(block, size);
}

void free(void *block)
{
    mi_free(block);
}
