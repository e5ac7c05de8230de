/* SPDX-License-Identifier: MIT
 *
 * The list of files to parse, in order. Once Ctrl-C came, folders and standard input hold no more. Main thread only. */
#ifndef BATCH_PATHS_H
#define BATCH_PATHS_H

#include "parse.h"

typedef struct paths_file {
    char *path;
    parse_kind kind;
    int error; /* 0; an errno value: it cannot be looked at, and may be a folder. Its kind is PARSE_UNKNOWN then */
} paths_file;

struct paths {
    paths_file *files;
    size_t count;
    size_t room;
    size_t skipped; /* files of no known kind */
};

#define PATHS_INIT                                                                                                     \
    {                                                                                                                  \
        NULL, 0, 0, 0                                                                                                  \
    }

/* Add a file, or what a folder holds; of that, what cannot be looked at is added with its error. 0 or an errno value:
 * the path itself cannot be reached, or memory is out. */
int paths_add(struct paths *paths, const char *path);

/* Add every path that standard input names, each ended by the separator. One that cannot be reached is added all the
 * same, so that its task reports it: a long list is not refused for one file that has gone. */
int paths_add_from_input(struct paths *paths, int separator);

/* All names of a command line, of which "-" is standard input. zero_separated: what that names ends with zero bytes. 0,
 * or an errno value after a line on standard error has said what is wrong. */
int paths_gather(struct paths *paths, char *const *names, int count, bool zero_separated);

/* Whether there is a "-" where one has to be. False: a line on standard error has said that there is none. */
bool paths_separator_fits(bool zero_separated, char *const *names, int count);

void paths_free(struct paths *paths);

#endif
