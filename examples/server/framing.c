/* SPDX-License-Identifier: MIT
 *
 * How requests are framed; see framing.h. It is stricter than libmicrohttpd, which before 1.0 ends a header at a NUL
 * and a path at %00, goes by the first of several lengths, by the chunks where there is a length as well, takes a lone
 * LF for the end of a line, and joins a line that goes on with the next one to its name. */
#include "framing.h"

#include <string.h>
#include <strings.h>

enum place {
    REQUEST_LINE,
    LINE_BEGIN, /* of a header */
    NAME,
    VALUE,
    LINE_END, /* LF, in the head or the trailer */
    HEAD_END,
    BODY,
    CHUNK_SIZE,
    CHUNK_REST, /* extensions */
    CHUNK_LF,
    CHUNK,
    CHUNK_END, /* CR LF behind it */
    CHUNK_END_LF,
};

/* Of which there may be one. */
static const char *const single[] = { "Content-Length", "Transfer-Encoding", "Host",         "Authorization", "Origin",
                                      "Stint-Memory",   "Stint-Allocation",  "Stint-Timeout" };

enum { LENGTH, CODING, SINGLE = sizeof single / sizeof *single };

#define CONTROL "a header has a control character in it"
#define LINE "a line ends with CR and LF"

static bool is_control(unsigned char c)
{
    return (c < ' ' && c != '\t') || c == 0x7f;
}

/* A character of a token (RFC 9110, 5.6.2). */
static bool is_of_name(unsigned char c)
{
    return c && strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", c);
}

static void begin_word(struct framing *framing)
{
    framing->word_length = 0;
    framing->word[0] = 0;
}

/* Of what is too long for the word only the length is right. */
static void add_to_word(struct framing *framing, char c)
{
    if (framing->word_length + 1 < sizeof framing->word) {
        framing->word[framing->word_length] = c;
        framing->word[framing->word_length + 1] = 0;
    }
    if (framing->word_length < 1U << 30)
        framing->word_length++;
}

/* The request's line */

static bool is_octet_zero(const struct framing *framing)
{
    unsigned length = framing->word_length;
    return length >= 3 && memcmp(framing->word + length - 3, "%00", 3) == 0;
}

/* The word is the last characters of the line. */
static void keep_end_of_line(struct framing *framing, char c)
{
    if (framing->word_length == 8) {
        memmove(framing->word, framing->word + 1, 8);
        framing->word_length--;
    }
    add_to_word(framing, c);
}

static const char *read_request_line(struct framing *framing, char c)
{
    if (c == '\r') {
        framing->place = framing->word_length ? LINE_END : HEAD_END; /* a blank line before it */
        framing->old = strcmp(framing->word, "HTTP/1.0") == 0;
        return NULL;
    }
    if (c == '\n')
        return LINE;
    if (is_control((unsigned char)c))
        return "the request has a control character in it";
    keep_end_of_line(framing, c);
    return is_octet_zero(framing) ? "the path has a zero byte in it" : NULL;
}

/* Headers */

static void recognize(struct framing *framing)
{
    framing->header = -1;
    for (int i = 0; i < SINGLE; i++) {
        if (strcasecmp(framing->word, single[i]) == 0)
            framing->header = i;
    }
}

static const char *end_name(struct framing *framing)
{
    recognize(framing);
    begin_word(framing);
    framing->place = VALUE;
    if (framing->header < 0)
        return NULL;
    unsigned bit = 1U << framing->header;
    if (framing->trailer)
        return "a header is behind the body that belongs before it";
    if (framing->seen & bit)
        return "a header is there twice that can be there once";
    framing->seen |= bit;
    return NULL;
}

static const char *read_name(struct framing *framing, char c)
{
    if (c == ':' && framing->word_length)
        return end_name(framing);
    if (!is_of_name((unsigned char)c))
        return "the name of a header has a space in it, or is none";
    add_to_word(framing, c);
    framing->place = NAME;
    return NULL;
}

static const char *begin_line(struct framing *framing, char c)
{
    begin_word(framing);
    if (c == ' ' || c == '\t')
        return "a header goes on in the next line";
    if (c == '\r')
        framing->place = HEAD_END;
    else
        return c == '\n' ? LINE : read_name(framing, c);
    return NULL;
}

/* The word is the value, without the blanks before it. */
static void cut_blanks(struct framing *framing)
{
    while (framing->word_length && strchr(" \t", framing->word[framing->word_length - 1]))
        framing->word[--framing->word_length] = 0;
}

static const char *take_length(struct framing *framing)
{
    unsigned digits = framing->word_length;
    if (digits == 0 || digits > 18 || strspn(framing->word, "0123456789") != digits)
        return "a length is one number";
    framing->has_length = true;
    framing->length = 0;
    for (unsigned i = 0; i < digits; i++)
        framing->length = 10 * framing->length + (uint64_t)(framing->word[i] - '0');
    return NULL;
}

static const char *end_value(struct framing *framing)
{
    framing->place = LINE_END;
    if (framing->header != LENGTH && framing->header != CODING)
        return NULL;
    if (framing->word_length >= sizeof framing->word)
        return "a header is longer than it can be";
    cut_blanks(framing);
    if (framing->header == LENGTH)
        return take_length(framing);
    framing->chunked = true;
    return strcasecmp(framing->word, "chunked") == 0 ? NULL : "a body can be chunked, and has no other coding";
}

static const char *read_value(struct framing *framing, char c)
{
    if (c == '\r')
        return end_value(framing);
    if (c == '\n')
        return LINE;
    if (is_control((unsigned char)c))
        return CONTROL;
    if (framing->word_length || (c != ' ' && c != '\t'))
        add_to_word(framing, c);
    return NULL;
}

static void begin_request(struct framing *framing)
{
    *framing = (struct framing){ .heads = framing->heads, .place = REQUEST_LINE, .at_request = true };
}

static const char *end_head(struct framing *framing)
{
    if (framing->chunked && framing->old)
        return "a body is not chunked in HTTP/1.0";
    if (framing->chunked && framing->has_length)
        return "a body has a length or is chunked, and not both";
    framing->heads++;
    begin_word(framing);
    if (framing->chunked)
        framing->place = CHUNK_SIZE;
    else if (framing->length)
        framing->place = BODY;
    else
        begin_request(framing);
    return NULL;
}

/* LF of the line that was blank: what is before a request, or the end of its head or of its trailer. */
static const char *end_block(struct framing *framing)
{
    if (framing->at_request || framing->trailer)
        return begin_request(framing), NULL;
    return end_head(framing);
}

/* Chunks */

static const char *end_size(struct framing *framing)
{
    if (framing->word_length == 0 || framing->word_length > 8)
        return "the size of a chunk is a number";
    framing->length = 0;
    for (const char *at = framing->word; *at; at++) {
        int digit = *at <= '9' ? *at - '0' : (*at | 0x20) - 'a' + 10;
        framing->length = 16 * framing->length + (uint64_t)digit;
    }
    return NULL;
}

static const char *read_size(struct framing *framing, char c)
{
    if (c == '\r' || c == ';') {
        framing->place = c == ';' ? CHUNK_REST : CHUNK_LF;
        return end_size(framing);
    }
    if (c == '\n')
        return LINE;
    if (!c || !strchr("0123456789abcdefABCDEF", c))
        return "the size of a chunk is a number";
    add_to_word(framing, c);
    return NULL;
}

static const char *read_extensions(struct framing *framing, char c)
{
    if (c == '\r')
        framing->place = CHUNK_LF;
    else if (c == '\n')
        return LINE;
    else if (is_control((unsigned char)c))
        return "an extension of a chunk has a control character in it";
    return NULL;
}

static void begin_chunk(struct framing *framing)
{
    framing->trailer = framing->length == 0;
    framing->place = framing->trailer ? LINE_BEGIN : CHUNK;
}

/* All */

static const char *expect(struct framing *framing, char c, char expected, enum place next)
{
    framing->place = next;
    return c == expected ? NULL : LINE;
}

static const char *read_one(struct framing *framing, char c)
{
    const char *fault;
    switch ((enum place)framing->place) {
    case REQUEST_LINE:
        return read_request_line(framing, c);
    case LINE_BEGIN:
        return begin_line(framing, c);
    case NAME:
        return read_name(framing, c);
    case VALUE:
        return read_value(framing, c);
    case LINE_END:
        framing->at_request = false;
        return expect(framing, c, '\n', LINE_BEGIN);
    case HEAD_END:
        return c == '\n' ? end_block(framing) : LINE;
    case CHUNK_SIZE:
        return read_size(framing, c);
    case CHUNK_REST:
        return read_extensions(framing, c);
    case CHUNK_LF:
        fault = expect(framing, c, '\n', CHUNK);
        begin_chunk(framing);
        return fault;
    case CHUNK_END:
        return expect(framing, c, '\r', CHUNK_END_LF);
    case CHUNK_END_LF:
        begin_word(framing);
        return expect(framing, c, '\n', CHUNK_SIZE);
    default:
        return NULL;
    }
}

/* Of a body or of a chunk as many as there are. */
static size_t skip(struct framing *framing, size_t available)
{
    size_t count = framing->length < available ? (size_t)framing->length : available;
    framing->length -= count;
    if (framing->length == 0 && framing->place == CHUNK)
        framing->place = CHUNK_END;
    else if (framing->length == 0)
        begin_request(framing);
    return count;
}

size_t framing_read(struct framing *framing, const char *bytes, size_t length)
{
    size_t request = 0; /* where the present one begins */
    if (framing->heads == 0 && framing->place == REQUEST_LINE && framing->word_length == 0)
        framing->at_request = true;
    for (size_t at = 0; at < length && !framing->fault;) {
        if (framing->at_request && framing->word_length == 0)
            request = at;
        if (framing->place == BODY || framing->place == CHUNK)
            at += skip(framing, length - at);
        else
            framing->fault = read_one(framing, bytes[at++]);
    }
    return framing->fault ? request : length;
}
