/* SPDX-License-Identifier: MIT
 *
 * A bad one: writes behind the end of its block, over whatever lies there. */
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    char *blocks[16];
    (void)text;
    (void)size;
    for (int i = 0; i < 16; i++) {
        blocks[i] = malloc(32);
        if (blocks[i] == NULL)
            return ENOMEM;
        memset(blocks[i], 'a', 32);
    }
    volatile char *volatile first = blocks[0];
    for (int i = 0; i < 4096; i++)
        first[i] = 'x';
    int spoilt = 0;
    for (int i = 1; i < 16; i++)
        spoilt += memchr(blocks[i], 'x', 32) != NULL;
    snprintf(answer, room, "%s", spoilt != 0 ? "its other blocks are spoilt" : "no harm seen");
    return 0;
}
