/* SPDX-License-Identifier: MIT
 *
 * A module's variables: eight pages, some of which can be made unreadable. And a library's access to one of libc's
 * variables, which is not copied into the program. */
#include <stddef.h>
#include <stdio.h>

void **NAME(void);

void **NAME(void)
{
    static _Alignas(4096) void *pages[8 * 4096 / sizeof(void *)];
    return pages;
}

#ifdef OUTPUT
FILE **OUTPUT(void);

FILE **OUTPUT(void)
{
    return &stdout;
}
#endif
