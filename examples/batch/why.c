/* SPDX-License-Identifier: MIT
 *
 * Why a task was stopped; see why.h. */
#include "why.h"
#include "contents.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST_NAME 200 /* of 255 bytes */

char *why_line(const stint_report *why)
{
    int file = memfd_create("why", MFD_CLOEXEC);
    if (file < 0)
        return NULL;
    char *line = NULL;
    size_t size;
    if (stint_report_write(why, file, STINT_REPORT_LINE) == 0 && contents_read(file, SIZE_MAX, &line, &size) == 0)
        line[strcspn(line, "\n")] = 0;
    close(file);
    return line;
}

static int save_as(const stint_report *why, const char *name)
{
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return errno;
    int error = stint_report_write(why, file, STINT_REPORT_TEXT);
    if (close(file) && !error)
        error = errno;
    return error;
}

/* What follows is to fit into the longest name of a file; and no newline or escape goes into one. */
static void make_plain(char *name)
{
    size_t length = strlen(name);
    if (length > LONGEST_NAME) {
        length = LONGEST_NAME;
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
            length--;
        name[length] = 0;
    }
    for (; *name; name++) {
        if ((unsigned char)*name < ' ' || *name == 0x7f)
            *name = '_';
    }
}

static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash ? slash + 1 : path);
    if (name)
        make_plain(name);
    return name;
}

int why_save(const stint_report *why, const char *folder, size_t number, const char *path)
{
    char *base = name_of(path);
    char *name;
    if (!base)
        return ENOMEM;
    int length = asprintf(&name, "%s/%zu-%s.txt", folder, number, base);
    free(base);
    if (length < 0)
        return ENOMEM;
    int error = save_as(why, name);
    free(name);
    return error;
}
