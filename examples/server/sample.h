/* SPDX-License-Identifier: MIT
 *
 * The sample database: ISO's countries, their parts, languages, currencies and scripts, from Debian's package
 * iso-codes. main only, before any thread. */
#ifndef SERVER_SAMPLE_H
#define SERVER_SAMPLE_H

#include <stddef.h>

/* Make it as a temporary file, whose path is to be freed, and the file removed by sample_remove. NULL: message says
 * what is wrong. */
char *sample_create(char *message, size_t room);

/* NULL does nothing. */
void sample_remove(char *path);

#endif
