/* SPDX-License-Identifier: MIT
 *
 * A bad one: leaves a process behind that never ends. */
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    pid_t pid = fork();
    while (pid == 0)
        pause();
    if (pid < 0)
        return errno;
    snprintf(answer, room, "has left a process behind");
    return 0;
}
