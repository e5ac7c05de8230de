/* SPDX-License-Identifier: MIT
 *
 * Pages that a task maps by itself: filled, grown and moved, protected, unmapped in parts. What an interrupt leaves of
 * them the rollback unmaps: none of the shared ones, which the system tells apart, is there when no task runs. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define SMALL (12 * PAGE)
#define GROWN (40 * PAGE)
#define SHARED (6 * PAGE)

static unsigned char *map(size_t size, int kind)
{
    unsigned char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | kind, -1, 0);
    return pages != MAP_FAILED ? pages : NULL;
}

static void fill(unsigned char *pages, size_t size, unsigned variant)
{
    for (size_t i = 0; i < size; i += 64)
        pages[i] = (unsigned char)(i / 64 * (variant + 3));
}

static void add(uint64_t *sum, const unsigned char *pages, size_t size)
{
    for (size_t i = 0; i < size; i += 64)
        chaos_add(sum, pages + i, 1);
}

/* A hole in the middle, and what is left is read. The hole is whoever's maps something next: so the rest goes in two
 * parts. */
static int cut(unsigned char *pages, size_t size, uint64_t *sum)
{
    size_t third = size / 3 / PAGE * PAGE;
    if (munmap(pages + third, third) != 0) {
        munmap(pages, size);
        return -1;
    }
    int error = mprotect(pages, third, PROT_READ);
    if (error == 0) {
        add(sum, pages, third);
        add(sum, pages + 2 * third, size - 2 * third);
    }
    munmap(pages, third);
    munmap(pages + 2 * third, size - 2 * third);
    return error;
}

static int grow(unsigned variant, uint64_t *sum)
{
    unsigned char *pages = map(SMALL, MAP_PRIVATE);
    if (pages == NULL)
        return -1;
    fill(pages, SMALL, variant);
    stint_checkpoint();
    unsigned char *grown = mremap(pages, SMALL, GROWN, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) {
        munmap(pages, SMALL);
        return -1;
    }
    fill(grown + SMALL, GROWN - SMALL, variant + 1);
    void *block = malloc(500);
    int error = cut(grown, GROWN, sum);
    free(block);
    return block != NULL ? error : -1;
}

static int share(unsigned variant, uint64_t *sum)
{
    unsigned char *pages = map(SHARED, MAP_SHARED);
    if (pages == NULL)
        return -1;
    fill(pages, SHARED, variant);
    void *block = malloc(700);
    add(sum, pages, SHARED);
    free(block);
    munmap(pages, SHARED);
    return block != NULL ? 0 : -1;
}

static int run(unsigned variant, uint64_t *sum)
{
    int error = 0;
    for (unsigned i = 0; i < 4 && error == 0; i++) {
        error = grow(variant + i, sum);
        if (error == 0)
            error = share(variant + i, sum);
    }
    return error;
}

static bool idle(void)
{
    char line[512];
    bool none = true;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        none = none && strstr(line, "/dev/zero (deleted)") == NULL;
    if (maps != NULL)
        fclose(maps);
    return none;
}

const struct chaos_library chaos_mappings = {
    .name = "mmap",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .idle = idle,
};
