/* SPDX-License-Identifier: MIT
 *
 * A good one: adds the numbers up. */
#include "plugin.h"

#include <ctype.h>
#include <stdio.h>

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    unsigned long sum = 0;
    unsigned long number = 0;
    for (size_t i = 0; i < size; i++) {
        if (isdigit((unsigned char)text[i])) {
            number = 10 * number + (unsigned long)(text[i] - '0');
            continue;
        }
        sum += number;
        number = 0;
    }
    snprintf(answer, room, "sum %lu", sum + number);
    return 0;
}
