/* SPDX-License-Identifier: MIT
 *
 * A bad one: crashes as soon as it is loaded. */
#include "plugin.h"

#include <stdlib.h>

__attribute__((constructor)) static void start(void)
{
    abort();
}

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    return 0;
}
