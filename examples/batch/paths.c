/* SPDX-License-Identifier: MIT
 *
 * The list of files to parse: from arguments, folders and standard input. */
#include "paths.h"
#include "arguments.h"
#include "interrupt.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add(struct paths *paths, const char *path, parse_kind kind, int problem)
{
    if (paths->count == paths->room) {
        size_t room = paths->room ? 2 * paths->room : 256;
        paths_file *files = reallocarray(paths->files, room, sizeof *files);
        if (!files)
            return ENOMEM;
        paths->files = files;
        paths->room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return ENOMEM;
    paths->files[paths->count++] = (paths_file){ copy, kind, problem };
    return 0;
}

static int add_file(struct paths *paths, const char *path)
{
    parse_kind kind;
    if (parse_kind_of(path, &kind))
        return add(paths, path, kind, 0);
    paths->skipped++;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* One entry of the walk. Links are followed to files, not to folders, so that a walk always ends. */
static int add_entry(struct paths *paths, const FTSENT *entry)
{
    struct stat status;
    switch (entry->fts_info) {
    case FTS_F:
        return add_file(paths, entry->fts_path);
    case FTS_SL:
        if (stat(entry->fts_accpath, &status) == 0 && S_ISDIR(status.st_mode))
            return 0;
        return add_file(paths, entry->fts_path);
    case FTS_DEFAULT: /* a device, a socket, a pipe */
        paths->skipped++;
        return 0;
    case FTS_DNR: /* not to be read, or not there any more */
    case FTS_NS:
    case FTS_ERR:
        return add(paths, entry->fts_path, PARSE_UNKNOWN, entry->fts_errno);
    default:
        return 0;
    }
}

static int add_folder(struct paths *paths, const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return ENOMEM;
    int error = 0;
    FTS *walk = fts_open((char *[]){ copy, NULL }, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (walk) {
        FTSENT *entry;
        errno = 0;
        while (!error && !interrupt_came() && (entry = fts_read(walk)))
            error = add_entry(paths, entry);
        if (!error && !interrupt_came())
            error = errno;
        fts_close(walk);
    } else {
        error = errno;
    }
    free(copy);
    return error;
}

int paths_add(struct paths *paths, const char *path)
{
    struct stat status;
    if (stat(path, &status))
        return errno;
    if (S_ISDIR(status.st_mode))
        return add_folder(paths, path);
    if (S_ISREG(status.st_mode))
        return add_file(paths, path);
    paths->skipped++;
    return 0;
}

/* What is known to be a file is tried once more in its turn; else nobody knows what it was. */
static int add_unreached(struct paths *paths, const char *path, int problem)
{
    parse_kind kind;
    return parse_kind_of(path, &kind) ? add(paths, path, kind, 0) : add(paths, path, PARSE_UNKNOWN, problem);
}

static ssize_t read_input(void *unused, char *to, size_t size)
{
    (void)unused;
    return interrupt_read(STDIN_FILENO, to, size);
}

static int add_lines(struct paths *paths, FILE *input, int separator)
{
    char *line = NULL;
    size_t room = 0;
    int error = 0;
    ssize_t length;
    while (!error && !interrupt_came() && (length = getdelim(&line, &room, separator, input)) > 0) {
        if (line[length - 1] == separator)
            line[length - 1] = 0;
        if (!line[0])
            continue;
        error = paths_add(paths, line);
        if (error && error != ENOMEM)
            error = add_unreached(paths, line, error);
    }
    if (!error && ferror(input))
        error = EIO;
    free(line);
    return error;
}

int paths_add_from_input(struct paths *paths, int separator)
{
    FILE *input = fopencookie(NULL, "r", (cookie_io_functions_t){ .read = read_input });
    if (!input)
        return ENOMEM;
    int error = add_lines(paths, input, separator);
    fclose(input);
    return error;
}

static bool is_input(const char *name)
{
    return strcmp(name, "-") == 0;
}

int paths_gather(struct paths *paths, char *const *names, int count, bool zero_separated)
{
    for (int i = 0; i < count; i++) {
        bool input = is_input(names[i]);
        int error = input ? paths_add_from_input(paths, zero_separated ? 0 : '\n') : paths_add(paths, names[i]);
        if (error)
            return arguments_complain(input ? "standard input" : names[i], error);
    }
    return 0;
}

bool paths_separator_fits(bool zero_separated, char *const *names, int count)
{
    for (int i = 0; zero_separated && i < count; i++) {
        if (is_input(names[i]))
            return true;
    }
    return !zero_separated || arguments_bad("-0 has an effect only if a PATH is '-'");
}

void paths_free(struct paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->files[i].path);
    free(paths->files);
}
