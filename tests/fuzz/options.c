/* SPDX-License-Identifier: MIT
 *
 * The arguments of a program, zero bytes between them: they are read, or a line says what is wrong. What is read keeps
 * what the help says. PROGRAM is the program's number. */
#include "options.h"

#include <getopt.h>

#include "fuzz.h"
#include "text.h"

#define MOST 32

static void check_texts(const char *text)
{
    size_t size;
    uint64_t number;
    char room[TEXT_ROOM];
    if (text_read_size(text, &size))
        fuzz_require(strlen(text_write_size(room, size)) < TEXT_ROOM);
    if (text_read_duration(text, &number))
        fuzz_require(strlen(text_write_duration(room, number)) < TEXT_ROOM);
    for (int printable = 0; printable < 2; printable++) {
        char *clean = text_clean(text, printable != 0);
        fuzz_require(clean != NULL);
        size_t length = strlen(clean);
        for (size_t at = 0; at < length;) {
            size_t character = text_character((const unsigned char *)clean + at, length - at);
            fuzz_require(character != 0);
            at += character;
        }
        fuzz_require(text_length(clean) <= length);
        free(clean);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *arguments[MOST + 2] = { (char *)(uintptr_t) "program" };
    char *text = fuzz_text(data, size);
    int count = 1;
    for (size_t at = 0; at < size && count <= MOST; at += strlen(text + at) + 1) {
        check_texts(text + at);
        arguments[count++] = text + at;
    }
    struct options options;
    optind = 0; /* glibc's getopt begins anew */
    arguments_next next = options_read(&options, count, arguments);
    fuzz_require(next == ARGUMENTS_RUN || next == ARGUMENTS_DONE || next == ARGUMENTS_BAD);
#ifdef OPTIONS_CHECK
    if (next == ARGUMENTS_RUN)
        fuzz_require(OPTIONS_CHECK);
#endif
    free(text);
    return 0;
}
