/* SPDX-License-Identifier: MIT
 *
 * Text of a trace, put into its buffer, in which the caller has seen to room. Numbers are put by hand, which is most of
 * what there is to do. The tracer's thread. */
#ifndef STI_ALLOC_OBSERVE_TRACE_TEXT_H
#define STI_ALLOC_OBSERVE_TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc/platform/utf8.h"
#include "trace_write.h"

static inline void put_bytes(struct sti_trace_file *file, const char *bytes, size_t size)
{
    memcpy(file->buffer + file->length, bytes, size);
    file->length += size;
}

#define PUT(file, text) put_bytes(file, text, sizeof(text) - 1)

static inline void put_text(struct sti_trace_file *file, const char *text)
{
    put_bytes(file, text, strlen(text));
}

static const char two_digits[] = "00010203040506070809101112131415161718192021222324"
                                 "25262728293031323334353637383940414243444546474849"
                                 "50515253545556575859606162636465666768697071727374"
                                 "75767778798081828384858687888990919293949596979899";

/* Put a number with at least so many digits, two digits at a time: divisions are most of the cost. */
static inline void put_digits(struct sti_trace_file *file, uint64_t number, unsigned least)
{
    char digits[22];
    unsigned count = 0;
    for (; number >= 10 || count + 1 < least; number /= 100) {
        count += 2;
        memcpy(digits + sizeof digits - count, two_digits + 2 * (number % 100), 2);
    }
    if (number > 0 || count < least)
        digits[sizeof digits - ++count] = (char)('0' + number);
    put_bytes(file, digits + sizeof digits - count, count);
}

static inline void trace_put_number(struct sti_trace_file *file, uint64_t number)
{
    put_digits(file, number, 1);
}

static inline void put_hex(struct sti_trace_file *file, uint64_t number)
{
    PUT(file, "\"0x");
    for (int shift = 60; shift >= 0; shift -= 4)
        file->buffer[file->length++] = "0123456789abcdef"[number >> shift & 15];
    PUT(file, "\"");
}

/* Put one of this library's own words, which need no escapes. */
static inline void put_word(struct sti_trace_file *file, const char *text)
{
    PUT(file, "\"");
    put_text(file, text);
    PUT(file, "\"");
}

/* Of names, which are short. */
static inline void trace_put_string(struct sti_trace_file *file, const char *text)
{
    PUT(file, "\"");
    while (*text != '\0') {
        if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
            file->buffer[file->length++] = *text++;
        else
            file->length += sti_json_character(file->buffer + file->length, &text);
    }
    PUT(file, "\"");
}

#endif
