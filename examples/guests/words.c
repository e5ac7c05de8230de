/* SPDX-License-Identifier: MIT
 *
 * A good one: counts words. */
#include "plugin.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    int words = 0;
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        bool is_space = isspace((unsigned char)text[i]) != 0;
        words += !is_space && !inside;
        inside = !is_space;
    }
    snprintf(answer, room, "%d words", words);
    return 0;
}
