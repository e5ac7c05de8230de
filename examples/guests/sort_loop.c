/* SPDX-License-Identifier: MIT
 *
 * A bad one: loops in a comparator, under a function of libc. */
#include "plugin.h"

#include <stdbool.h>
#include <stdlib.h>

static volatile bool done;

static int compare(const void *one, const void *other)
{
    while (!done)
        ;
    return *(const char *)one - *(const char *)other;
}

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    char letters[] = "plugin";
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    qsort(letters, sizeof letters - 1, 1, compare);
    return 0;
}
