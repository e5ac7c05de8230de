/* SPDX-License-Identifier: MIT
 *
 * What is in a file. Any thread, in a task or without one. */
#ifndef COMMON_CONTENTS_H
#define COMMON_CONTENTS_H

#include <stddef.h>

/* The whole of a regular file, or of one in memory, from its beginning, in one block with a zero byte after it. 0;
 * EISDIR, EINVAL: it is no such file; EMSGSIZE: it has more bytes than these, *size; ENOMEM; or as pread. Without 0
 * *text is NULL. */
int contents_read(int file, size_t most, char **text, size_t *size);

#endif
