/* SPDX-License-Identifier: MIT
 *
 * A malloc of the program's own. Any thread. Ends the process when it is given a block that it has not made. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)1 << 28)
#define HEADER ((size_t)16)

static _Alignas(16) char room[ROOM];
static atomic_size_t taken;

void *malloc(size_t size)
{
    size_t whole = HEADER + ((size + 15) & ~(size_t)15);
    size_t begin = atomic_fetch_add(&taken, whole);
    if (begin + whole > ROOM)
        return NULL;
    memcpy(room + begin, &size, sizeof size);
    return room + begin + HEADER;
}

void free(void *block)
{
    if (block != NULL && (uintptr_t)block - (uintptr_t)room >= ROOM)
        abort();
}

/* It has never been anything else than zero. */
void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
    void *grown = malloc(size);
    size_t before = 0;
    if (block != NULL)
        memcpy(&before, (char *)block - HEADER, sizeof before);
    if (grown != NULL && block != NULL)
        memcpy(grown, block, before < size ? before : size);
    if (grown != NULL)
        free(block);
    return grown;
}
