/* SPDX-License-Identifier: MIT
 *
 * A bad one: reads through a null pointer. */
#include "plugin.h"

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    int *volatile nothing = NULL;
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    return *nothing;
}
