/* SPDX-License-Identifier: MIT
 *
 * A module's variables: eight pages, of which some can be made unreadable. */
#include <stddef.h>

void **NAME(void);

void **NAME(void)
{
    static _Alignas(4096) void *pages[8 * 4096 / sizeof(void *)];
    return pages;
}
