/* SPDX-License-Identifier: MIT
 *
 * Sizes, durations and names as people read and write them. Pure functions; any thread. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_ROOM 24
#define TEXT_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD: what is no character becomes */

/* Digits and nothing else. False if it is no number, or too large for 64 bits. */
bool text_read_number(const char *text, uint64_t *number);

/* "64M", "1GiB", "500k", "4096": binary multiples. False if it is no size, or too large for size_t. */
bool text_read_size(const char *text, size_t *size);

/* "500ms", "2s", "1m", "1h", "100us"; "0" is no time at all. False if it is no duration, or longer than 500 years. */
bool text_read_duration(const char *text, uint64_t *nanoseconds);

/* The other way, for people: three digits or so. Return room. */
const char *text_write_size(char room[TEXT_ROOM], uint64_t size);
const char *text_write_duration(char room[TEXT_ROOM], uint64_t nanoseconds);

/* A copy for malloc's free that is valid UTF-8: what is not becomes U+FFFD. printable: control characters, which could
 * steer a terminal, become '?'. NULL: out of memory. */
char *text_clean(const char *text, bool printable);

/* Bytes of the character of UTF-8 that begins here; 0: none does. Overlong forms, surrogates and what lies past
 * U+10FFFF are none. left is at least 1. */
size_t text_character(const unsigned char *bytes, size_t left);

/* Characters in valid UTF-8. */
size_t text_length(const char *text);

#endif
