/* SPDX-License-Identifier: MIT
 *
 * An operator new and delete of the program's own, by their mangled names. */
#include <stdlib.h>

void *own_new(size_t size) __asm__("_Znwm");
void own_delete(void *block) __asm__("_ZdlPv");

void *own_new(size_t size)
{
    return malloc(size);
}

void own_delete(void *block)
{
    free(block);
}
