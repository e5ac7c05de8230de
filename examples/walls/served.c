/* SPDX-License-Identifier: MIT
 *
 * A template that is a program of its own, for the host of docs/wall.md (host.c): it serves its functions by name. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stint/stint.h>
#include <string.h>

static int shout(const void *input, size_t size, stint_reply *reply)
{
    const char *text = input;
    char *loud = stint_reply_reserve(reply, size);
    if (loud == NULL)
        return errno;
    for (size_t i = 0; i < size; i++)
        loud[i] = (char)toupper((unsigned char)text[i]);
    return 0;
}

static int trip(const void *input, size_t size, stint_reply *reply)
{
    (void)size;
    (void)reply;
    return *(const int *)(uintptr_t) * (const unsigned char *)input;
}

int main(void)
{
    static const stint_wall_entry entries[] = { { "shout", shout }, { "trip", trip } };
    /* What setup would do: load, warm up, open. */
    int error = stint_wall_serve(entries, sizeof entries / sizeof *entries);
    fprintf(stderr, "This is a part of another program, which starts it: %s.\n", strerror(error));
    return 1;
}
