/* SPDX-License-Identifier: MIT
 *
 * What is in a file; see contents.h. */
#include "contents.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* As much of it as there is. */
static int fill(int file, char *block, size_t room, size_t *size)
{
    ssize_t count = 1;
    for (*size = 0; *size < room && count != 0;) {
        count = pread(file, block + *size, room - *size, (off_t)*size);
        if (count < 0 && errno != EINTR)
            return errno;
        *size += count > 0 ? (size_t)count : 0;
    }
    block[*size] = 0;
    return 0;
}

int contents_read(int file, size_t most, char **text, size_t *size)
{
    struct stat status;
    *text = NULL;
    if (fstat(file, &status))
        return errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    *size = (size_t)status.st_size;
    if (*size > most)
        return EMSGSIZE;
    char *block = malloc(*size + 1);
    int error = block ? fill(file, block, *size, size) : ENOMEM;
    if (error)
        free(block);
    else
        *text = block;
    return error;
}
