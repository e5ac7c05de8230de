/* SPDX-License-Identifier: MIT
 *
 * Run by configure: which mimalloc is it that a program gets, by the header that it is compiled with and by the library
 * that it is run with? Prints both versions. Status 0: they are the same, and it is 3.3 or later; 1: too old; 2: two
 * different ones. The digits of the versions changed on the way: 209, 227, 301, 316, 3012, 3206, 20302, 30300, 30600; a
 * number below 30300 is older than 3.3. */
#include <mimalloc.h>
#include <stdio.h>

int main(void)
{
    int library = mi_version();
    printf("%d %d\n", MI_MALLOC_VERSION, library);
    if (library != MI_MALLOC_VERSION)
        return 2;
    return MI_MALLOC_VERSION >= 30300 ? 0 : 1;
}
