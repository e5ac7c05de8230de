/* SPDX-License-Identifier: MIT
 *
 * A bad one: opens descriptors until there are none left. */
#include "plugin.h"

#include <errno.h>
#include <unistd.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    for (int i = 0; i < 1000000; i++) {
        if (dup(1) < 0)
            return errno;
    }
    return 0;
}
