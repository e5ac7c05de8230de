/* SPDX-License-Identifier: MIT
 *
 * Reading the arguments of options, and saying what is wrong with them, in one line on standard error that begins with
 * the program's name. Those that return a bool return false after they have said it. Main thread. */
#ifndef COMMON_ARGUMENTS_H
#define COMMON_ARGUMENTS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "PROGRAM: ... (see PROGRAM --help)"; false. */
bool arguments_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What getopt_long returned ':' or '?' for; false. */
bool arguments_bad_option(const struct option *known, int kind, char **argv);

bool arguments_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number);
bool arguments_size(const char *option, const char *text, size_t *size);
bool arguments_duration(const char *option, const char *text, uint64_t *nanoseconds);

/* "PROGRAM: ABOUT: what the errno value means"; that value. */
int arguments_complain(const char *about, int error);

/* A name that can be a token of a subject: letters, digits, - and _, up to 64. */
bool arguments_name(const char *option, const char *text, const char **name);

/* The processors that this process may run on. */
unsigned arguments_processors(void);

#endif
