/* SPDX-License-Identifier: MIT
 *
 * A bad one: frees a block twice. Then the same memory is handed out twice, to whoever asks next. */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    void *volatile block = malloc(48); /* volatile: or the compiler would know better */
    (void)text;
    (void)size;
    free(block);
    free(block);
    void *volatile blocks[64];
    int shared = 0;
    for (int i = 0; i < 64; i++) {
        blocks[i] = malloc(48);
        for (int j = 0; j < i; j++)
            shared += blocks[i] == blocks[j];
    }
    snprintf(answer, room, "%s", shared != 0 ? "one block, handed out twice" : "no harm seen");
    return 0;
}
