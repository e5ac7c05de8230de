/* SPDX-License-Identifier: MIT
 *
 * JSON's strings; see json.h. */
#include "json.h"
#include "text.h"

#include <errno.h>
#include <string.h>

static int write_odd(json_sink *sink, void *arg, unsigned char byte)
{
    static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    char text[8];
    if (byte >= 0x80)
        return sink(arg, TEXT_REPLACEMENT, strlen(TEXT_REPLACEMENT));
    const char *found = byte ? strchr(named, byte) : NULL;
    int length = found ? snprintf(text, sizeof text, "\\%c", names[found - named])
                       : snprintf(text, sizeof text, "\\u%04x", byte);
    return sink(arg, text, (size_t)length);
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

/* Runs of characters that stand for themselves are written in one piece. */
static size_t plain_run(const unsigned char *bytes, size_t length)
{
    size_t run = 0;
    while (run < length && is_plain(bytes[run])) {
        size_t character = text_character(bytes + run, length - run);
        if (character == 0)
            break;
        run += character;
    }
    return run;
}

int json_write_string(json_sink *sink, void *arg, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    int error = sink(arg, "\"", 1);
    while (!error && length) {
        size_t run = plain_run(at, length);
        if (run) {
            error = sink(arg, at, run);
        } else {
            error = write_odd(sink, arg, *at);
            run = 1;
        }
        at += run;
        length -= run;
    }
    return error ? error : sink(arg, "\"", 1);
}

static int print(void *file, const void *bytes, size_t length)
{
    return fwrite(bytes, 1, length, file) == length ? 0 : EIO;
}

void json_print_string(FILE *file, const char *string)
{
    json_write_string(print, file, string, strlen(string));
}
