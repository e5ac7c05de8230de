/* SPDX-License-Identifier: MIT
 *
 * Pairs of mmap and munmap. */
#include <stdlib.h>
#include <sys/mman.h>

#include "serve.h"
#include "work.h"

#define SIZE ((size_t)64 << 10)
#define PAIRS 20 /* a slice */

static void slice(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAIRS; i++) {
        char *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            exit(1);
        *(volatile char *)pages = 1;
        munmap(pages, SIZE);
    }
}

size_t work_map(double *figures)
{
    figures[0] = bench_slices(slice, NULL, PAIRS);
    return 1;
}
