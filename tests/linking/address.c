/* SPDX-License-Identifier: MIT
 *
 * A program in which the address of malloc is one of its own: linked at a fixed place, it takes that address. */
#include <stdlib.h>

#include "probe.h"

void *(*const volatile taken)(size_t) = malloc;
void (*const volatile taken_too)(void *) = free;

int main(int count, char **arguments)
{
    void *block = taken(10);
    taken_too(block);
    return count == 2 ? probe(arguments[1]) : 2;
}
