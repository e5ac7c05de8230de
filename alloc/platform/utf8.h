/* SPDX-License-Identifier: MIT
 *
 * Names, which may be any bytes, where they are written as UTF-8. Any thread. */
#ifndef STI_ALLOC_PLATFORM_UTF8_H
#define STI_ALLOC_PLATFORM_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline size_t sti_utf8_announced(unsigned char first)
{
    if (first < 0x80)
        return 1;
    return first >= 0xc2 && first < 0xe0   ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 0;
}

/* The bytes of the character at the beginning of a text that is not empty; 0: there is none. Table 3-7 of the Unicode
 * Standard: the second byte keeps out what is longer than it need be, surrogates, and what lies beyond the last
 * character. */
static inline size_t sti_utf8_character(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t bytes = sti_utf8_announced(byte[0]);
    unsigned char lowest = byte[0] == 0xe0 ? 0xa0 : byte[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char highest = byte[0] == 0xed ? 0x9f : byte[0] == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < bytes; i++) {
        if (byte[i] < lowest || byte[i] > highest)
            return 0;
        lowest = 0x80;
        highest = 0xbf;
    }
    return bytes;
}

/* The next character of a text that is not at its end, as a JSON string has it. The bytes of it, in the room; *text
 * moves. */
#define STI_JSON_ROOM 8
static inline size_t sti_json_character(char *room, const char **text)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = sti_utf8_character(*text);
    unsigned char first = (unsigned char)**text;
    const char *character = *text;
    *text += length > 0 ? length : 1;
    if (length == 0)
        return (size_t)(stpcpy(room, "\\ufffd") - room);
    if (length == 1 && (first < ' ' || first == 0x7f)) {
        memcpy(room, "\\u00", 4);
        room[4] = digits[first >> 4];
        room[5] = digits[first & 15];
        return 6;
    }
    bool is_escaped = first == '"' || first == '\\';
    room[0] = '\\';
    memcpy(room + is_escaped, character, length);
    return length + is_escaped;
}

/* Copy a text, as far as it fits in whole characters. */
static inline void sti_utf8_copy(char *copy, size_t size, const char *text)
{
    size_t length = strnlen(text, size);
    if (length == size) {
        length--;
        for (size_t back = 0; back < 3 && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; back++)
            length--;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
}

/* The same, with each byte that is no part of a character as a question mark. */
static inline void sti_utf8_copy_clean(char *copy, size_t size, const char *text)
{
    const char *end = copy + size - 1;
    while (*text != '\0') {
        size_t bytes = sti_utf8_character(text);
        size_t taken = bytes != 0 ? bytes : 1;
        if (copy + taken > end)
            break;
        memcpy(copy, bytes != 0 ? text : "?", taken);
        copy += taken;
        text += taken;
    }
    *copy = '\0';
}

#endif
