/* SPDX-License-Identifier: MIT
 *
 * See library.h. */
#include "library.h"

#include <stdlib.h>

#define JOINED(name) left_##name
#define LIBRARY(name) JOINED(name)

static int work(unsigned blocks)
{
    struct left_library *library = &LIBRARY(NAME);
    int result = 0;
    library->begun++;
    for (unsigned i = 0; i < blocks && result == 0; i++) {
        void *block = malloc(1000);
        __asm__ volatile("" : "+r"(block) : : "memory");
        result = block != NULL ? 0 : -1;
        free(block);
    }
    library->refused += result != 0;
    library->ended++;
    return result;
}

static void call(void (*function)(void *), void *arg)
{
    struct left_library *library = &LIBRARY(NAME);
    library->begun++;
    function(arg);
    library->ended++;
}

static void spin(void)
{
    struct left_library *library = &LIBRARY(NAME);
    library->begun++;
    while (!atomic_load_explicit(&library->ends, memory_order_relaxed))
        ;
    library->ended++;
}

struct left_library LIBRARY(NAME) = { .work = work, .call = call, .spin = spin };
