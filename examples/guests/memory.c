/* SPDX-License-Identifier: MIT
 *
 * A bad one: takes 400 MB. */
#include "plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    for (int i = 0; i < 400; i++) {
        void *volatile block = malloc(1000000);
        if (block == NULL)
            return ENOMEM;
        memset(block, i, 1000000);
    }
    return 0;
}
