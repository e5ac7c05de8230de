/* SPDX-License-Identifier: MIT
 *
 * JSON's strings, written to wherever somebody wants them. Pure functions; any thread. */
#ifndef SERVER_JSON_H
#define SERVER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Takes some bytes; 0, or an errno value, which ends the string there. */
typedef int json_sink(void *arg, const void *bytes, size_t length);

/* The bytes in quotes. What is not UTF-8 in them becomes U+FFFD, control characters and quotes get their backslash. 0,
 * or what the sink said. */
int json_write_string(json_sink *sink, void *arg, const void *bytes, size_t length);

/* The same to a stream, of a string that ends with a zero byte. */
void json_print_string(FILE *file, const char *string);

#endif
