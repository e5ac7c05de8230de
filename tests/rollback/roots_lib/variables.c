/* SPDX-License-Identifier: MIT
 *
 * A module's variables: eight pages, of which some can be made unreadable. And what a library can do to one of libc's,
 * which is not copied into the program for it. */
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
