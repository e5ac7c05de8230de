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

/* How a program's options are told to arguments_read. */
struct arguments {
    const char *program, *help;
    const char *letters;                     /* of short options, as getopt_long has them: ":" ... "hV" */
    const struct option *known;              /* the last one is ARGUMENTS_LAST */
    bool (*read)(void *options, int option); /* with its argument in optarg; false: a line has said what is wrong */
};

#define ARGUMENTS_LAST                                                                                                 \
    { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },                                         \
    {                                                                                                                  \
        NULL, 0, NULL, 0                                                                                               \
    }

#define ARGUMENTS_UNITS_HELP "SIZE is a number with k, M, G or T (powers of 1024), DURATION one with us, ms, s, m or h"

typedef enum arguments_next {
    ARGUMENTS_RUN,
    ARGUMENTS_DONE, /* help or version was asked for, and printed */
    ARGUMENTS_BAD,  /* a line on standard error has said what is wrong */
} arguments_next;

/* Read all options; what is left in argv from optind on is not looked at. */
arguments_next arguments_read(const struct arguments *arguments, void *options, int argc, char **argv);

bool arguments_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number);
bool arguments_count(const char *option, const char *text, unsigned most, unsigned *count); /* 1 or more */
bool arguments_size(const char *option, const char *text, size_t *size);
bool arguments_duration(const char *option, const char *text, uint64_t *nanoseconds);

/* "PROGRAM: ABOUT: what the errno value means"; that value. */
int arguments_complain(const char *about, int error);

/* A name that can be a token of a subject: letters, digits, - and _, up to 64. */
bool arguments_name(const char *option, const char *text, const char **name);

/* The processors that this process may run on. */
unsigned arguments_processors(void);

#endif
