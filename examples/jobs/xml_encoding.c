/* SPDX-License-Identifier: MIT
 *
 * XML in another encoding than UTF-8 and UTF-16, which libxml2 reads by itself. For any other it would open converters
 * of libc's iconv, or ask ICU, which keeps the converters that it has made: neither is the task's, and a rollback would
 * leave the one behind and pull the other's memory away. So the document is converted here, by iconv, under a guard. */
#include "xml_encoding.h"

#include <errno.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LONGEST_NAME 63

/* The beginnings by which libxml2 would know encodings that are none of its own: of "<?xm", and a byte order mark. */
static const struct {
    const char *bytes;
    const char *encoding;
} beginnings[] = {
    { "\x4c\x6f\xa7\x94", "IBM037" }, { "\0\0\0<", "UCS-4BE" },    { "<\0\0\0", "UCS-4LE" },
    { "\0\0\xfe\xff", "UCS-4" },      { "\xff\xfe\0\0", "UCS-4" },
};

/* The encoding that the document's first line declares, or that it must be in to begin as it does, if it is not one
 * that needs no word: else "". */
static void encoding_of(const char *text, size_t size, char encoding[LONGEST_NAME + 1])
{
    encoding[0] = 0;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (size >= 4 && memcmp(text, beginnings[i].bytes, 4) == 0)
            strcpy(encoding, beginnings[i].encoding);
    }
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)sizeof line - 1, text);
    char *end = strstr(line, "?>");
    const char *at = end && strncmp(line, "<?xml", 5) == 0 ? strstr(line, "encoding") : NULL;
    if (at && at < end && sscanf(at, "encoding%*[ =\t\r\n]%*[\"']%63[A-Za-z0-9._-]", encoding) == 1 &&
        strcasecmp(encoding, "UTF-8") == 0)
        encoding[0] = 0;
}

static void close_converter(void *converter)
{
    iconv_close((iconv_t)converter);
}

/* What iconv makes of the text; NULL with errno. */
static char *converted(iconv_t converter, const char *text, size_t size, size_t *new_size)
{
    size_t capacity = size + size / 2 + 64;
    char *buffer = malloc(capacity);
    char *in = (char *)(intptr_t)text;
    size_t done = 0;
    while (buffer) {
        char *out = buffer + done;
        size_t room = capacity - done;
        if (iconv(converter, &in, &size, &out, &room) != (size_t)-1) {
            *new_size = capacity - room;
            return buffer;
        }
        done = capacity - room;
        char *larger = errno == E2BIG ? realloc(buffer, capacity *= 2) : NULL;
        if (!larger) {
            int error = errno;
            free(buffer);
            errno = error;
        }
        buffer = larger;
    }
    return NULL;
}

int xml_to_utf8(parse_document *document, const char *text, size_t size, char **utf8, size_t *utf8_size)
{
    char encoding[LONGEST_NAME + 1];
    *utf8 = NULL;
    encoding_of(text, size, encoding);
    if (!encoding[0])
        return 0;
    iconv_t converter = iconv_open("UTF-8", encoding);
    if (converter == (iconv_t)-1) {
        parse_explain(document, "unknown encoding %s", encoding);
        return EBADMSG;
    }
    stint_guard guard;
    stint_guard_push(&guard, close_converter, converter);
    *utf8 = converted(converter, text, size, utf8_size);
    int error = *utf8 ? 0 : errno;
    stint_guard_pop(&guard, true);
    if (error == ENOMEM) {
        parse_explain(document, "out of memory");
    } else if (error != 0) {
        parse_explain(document, "not in the encoding %s", encoding);
        error = EBADMSG;
    }
    return error;
}
