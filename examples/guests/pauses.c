/* SPDX-License-Identifier: MIT
 *
 * A bad one: waits for a signal that nobody sends. */
#include "plugin.h"

#include <unistd.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    return pause();
}
