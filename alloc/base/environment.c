/* SPDX-License-Identifier: MIT
 *
 * Paths and complaints of what is asked for by the environment; see environment.h. */
#include "environment.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *sti_environment_path(const char *pattern)
{
    char *expanded = NULL;
    size_t size;
    FILE *stream = open_memstream(&expanded, &size);
    if (stream == NULL)
        return NULL;
    const char *mark;
    while ((mark = strstr(pattern, "%p")) != NULL) {
        fwrite(pattern, 1, (size_t)(mark - pattern), stream);
        fprintf(stream, "%d", getpid());
        pattern = mark + 2;
    }
    fputs(pattern, stream);
    return fclose(stream) == 0 ? expanded : NULL;
}

void sti_environment_complain(const char *variable, const char *about, const char *what)
{
    char line[PATH_MAX + 256];
    int length = snprintf(line, sizeof line, "stint: %s: %s: %s\n", variable, about, what);
    size_t size = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    if (length > 0 && write(STDERR_FILENO, line, size) < 0)
        return; /* then there is nobody to tell */
}
