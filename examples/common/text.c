/* SPDX-License-Identifier: MIT
 *
 * Sizes, durations and names as people read and write them. */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    { "", 1 },
    { "B", 1 },
    { "K", 1ULL << 10 },
    { "KB", 1ULL << 10 },
    { "KiB", 1ULL << 10 },
    { "M", 1ULL << 20 },
    { "MB", 1ULL << 20 },
    { "MiB", 1ULL << 20 },
    { "G", 1ULL << 30 },
    { "GB", 1ULL << 30 },
    { "GiB", 1ULL << 30 },
    { "T", 1ULL << 40 },
    { "TB", 1ULL << 40 },
    { "TiB", 1ULL << 40 },
};

static const struct unit duration_units[] = {
    { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "m", 60000000000 }, { "h", 3600000000000 },
};

static bool read_amount(const char *text, const struct unit *units, size_t count, uint64_t *amount)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name) == 0)
            return !__builtin_mul_overflow((uint64_t)number, units[i].factor, amount);
    }
    return false;
}

bool text_read_number(const char *text, uint64_t *number)
{
    static const struct unit ones[] = { { "", 1 } };
    return read_amount(text, ones, 1, number);
}

bool text_read_size(const char *text, size_t *size)
{
    uint64_t amount;
    if (!read_amount(text, size_units, sizeof size_units / sizeof size_units[0], &amount) || amount > SIZE_MAX)
        return false;
    *size = (size_t)amount;
    return true;
}

bool text_read_duration(const char *text, uint64_t *nanoseconds)
{
    if (strcmp(text, "0") == 0) {
        *nanoseconds = 0;
        return true;
    }
    return read_amount(text, duration_units, sizeof duration_units / sizeof duration_units[0], nanoseconds);
}

const char *text_write_size(char room[TEXT_ROOM], uint64_t size)
{
    static const char units[] = "KMGTPE";
    if (size < 1024) {
        snprintf(room, TEXT_ROOM, "%" PRIu64 "B", size);
        return room;
    }
    double amount = (double)size / 1024;
    size_t unit = 0;
    for (; amount >= 1024; unit++)
        amount /= 1024;
    snprintf(room, TEXT_ROOM, "%.*f%ciB", amount < 100, amount, units[unit]);
    return room;
}

const char *text_write_duration(char room[TEXT_ROOM], uint64_t nanoseconds)
{
    double seconds = (double)nanoseconds / 1e9;
    if (seconds < 1e-3)
        snprintf(room, TEXT_ROOM, "%.0fus", seconds * 1e6);
    else if (seconds < 1)
        snprintf(room, TEXT_ROOM, "%.*fms", seconds < 0.1, seconds * 1e3);
    else if (seconds < 60)
        snprintf(room, TEXT_ROOM, "%.2fs", seconds);
    else
        snprintf(room, TEXT_ROOM, "%" PRIu64 ":%02" PRIu64 "m", nanoseconds / 60000000000,
                 nanoseconds / 1000000000 % 60);
    return room;
}

/* By the table of well-formed sequences in the Unicode standard (3-7). */
size_t text_character(const unsigned char *bytes, size_t left)
{
    unsigned char first = bytes[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                    : (first & 0xf0) == 0xe0         ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    if (length == 0 || length > left)
        return 0;
    unsigned char lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < lowest || bytes[1] > highest)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

char *text_clean(const char *text, bool printable)
{
    char *copy = malloc(3 * strlen(text) + 1);
    if (!copy)
        return NULL;
    char *to = copy;
    const unsigned char *from = (const unsigned char *)text, *end = from + strlen(text);
    while (from < end) {
        size_t size = text_character(from, (size_t)(end - from));
        bool control = *from < 0x20 || *from == 0x7f || (*from == 0xc2 && from[1] < 0xa0); /* C0, DEL, C1 */
        if (size == 0)
            to = stpcpy(to, TEXT_REPLACEMENT);
        else if (control && printable)
            *to++ = '?';
        else
            to = mempcpy(to, from, size);
        from += size ? size : 1;
    }
    *to = 0;
    return copy;
}

size_t text_length(const char *text)
{
    size_t length = 0;
    for (; *text; text++)
        length += (*text & 0xc0) != 0x80;
    return length;
}
