/* SPDX-License-Identifier: MIT
 *
 * A bad one: writes all over the memory of its process, from its own answer upwards, until something stops it. */
#include "plugin.h"

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)room;
    for (volatile char *at = answer;; at++)
        *at = 'x';
}
