/* SPDX-License-Identifier: MIT
 *
 * How requests are framed; see framing.h. It is stricter than libmicrohttpd, which before 1.0 ends a header at a NUL
 * and a path at %00, goes by the first of several lengths, by the chunks where there is a length as well, takes a lone
 * LF for the end of a line, and joins a line that goes on with the next one to its name.
 *
 * Each part is looked at when all of it has come, from its beginning; a character that cannot be in it, as soon as that
 * has. */
#include "framing.h"

#include <string.h>
#include <strings.h>

enum place { REQUEST, CHUNK, CHUNK_END, TRAILER };

/* Of which there may be one. */
static const char *const single[] = { "Content-Length", "Transfer-Encoding", "Host",         "Authorization", "Origin",
                                      "Stint-Memory",   "Stint-Allocation",  "Stint-Timeout" };

enum { LENGTH, CODING, SINGLE = sizeof single / sizeof *single };

#define DIGITS "0123456789"
#define TOKEN "!#$%&'*+-.^_`|~" DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" /* RFC 9110, 5.6.2 */

struct text {
    const char *at;
    size_t length;
};

/* What the lines of one head say. */
struct head {
    bool old, chunked, has_length, trailer;
    unsigned seen; /* a bit for each header of which there may be one */
    uint64_t length;
};

static size_t fail(struct framing *framing, const char *fault)
{
    framing->fault = fault;
    return 0;
}

static bool equals(struct text text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

/* So many characters at its beginning are among these. */
static size_t span(struct text text, const char *these)
{
    size_t count = 0;
    while (count < text.length && text.at[count] && strchr(these, text.at[count]))
        count++;
    return count;
}

static struct text behind(struct text text, size_t count)
{
    return (struct text){ text.at + count, text.length - count };
}

/* The line without its end. False: it has not come as a whole, or there is a fault in it. */
static bool read_line(struct framing *framing, struct text from, struct text *line)
{
    for (size_t i = 0; i < from.length; i++) {
        unsigned char c = (unsigned char)from.at[i];
        if (c == '\r' && i + 1 == from.length)
            return false;
        if (c == '\r' && from.at[i + 1] == '\n') {
            *line = (struct text){ from.at, i };
            return true;
        }
        if (c == '\r' || c == '\n')
            return fail(framing, "a line must end with CR LF");
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return fail(framing, "a line has a control character in it");
    }
    return false;
}

/* The lines of a head: NULL, or what is wrong */

static const char *read_request_line(struct head *head, struct text line)
{
    head->old = line.length >= 8 && memcmp(line.at + line.length - 8, "HTTP/1.0", 8) == 0;
    return memmem(line.at, line.length, "%00", 3) ? "the path has a zero byte in it" : NULL;
}

static const char *read_length(struct head *head, struct text value)
{
    if (value.length == 0 || value.length > 18 || span(value, DIGITS) != value.length)
        return "a length must be one number";
    head->has_length = true;
    for (size_t i = 0; i < value.length; i++)
        head->length = 10 * head->length + (uint64_t)(value.at[i] - '0');
    return NULL;
}

static const char *read_single(struct head *head, int which, struct text value)
{
    if (head->trailer)
        return "a header after the body belongs before it";
    if (head->seen & 1U << which)
        return "a header that may occur once occurs twice";
    head->seen |= 1U << which;
    if (which == LENGTH)
        return read_length(head, value);
    if (which != CODING)
        return NULL;
    head->chunked = true;
    return equals(value, "chunked") ? NULL : "the only coding of a body is chunked";
}

static const char *read_header(struct head *head, struct text line)
{
    struct text name = { line.at, span(line, TOKEN) };
    if (span(line, " \t"))
        return "a header continues in the next line";
    if (name.length == 0 || name.length == line.length || line.at[name.length] != ':')
        return "a header has a bad name";
    struct text value = behind(line, name.length + 1);
    value = behind(value, span(value, " \t"));
    while (value.length && strchr(" \t", value.at[value.length - 1]))
        value.length--;
    for (int i = 0; i < SINGLE; i++) {
        if (equals(name, single[i]))
            return read_single(head, i, value);
    }
    return NULL;
}

static const char *end_head(const struct head *head)
{
    if (head->chunked && head->old)
        return "HTTP/1.0 has no chunks";
    return head->chunked && head->has_length ? "a body has a length or chunks, not both" : NULL;
}

/* Parts: the bytes that they have, and where the next one begins; 0: not all have come, or there is a fault. */

/* From the first line to the blank one. */
static size_t read_lines(struct framing *framing, struct text from, struct head *head)
{
    struct text line;
    size_t at = 0;
    while (read_line(framing, behind(from, at), &line)) {
        const char *fault = line.length == 0            ? end_head(head)
                            : at == 0 && !head->trailer ? read_request_line(head, line)
                                                        : read_header(head, line);
        if (fault)
            return fail(framing, fault);
        at += line.length + 2;
        if (line.length == 0)
            return at;
    }
    return 0;
}

static uint64_t read_request(struct framing *framing, struct text from)
{
    struct head head = { .old = false };
    size_t size = read_lines(framing, from, &head);
    if (size <= 2)
        return size; /* a blank line before a request */
    framing->heads++;
    framing->place = head.chunked ? CHUNK : REQUEST;
    return size + head.length;
}

static size_t read_trailer(struct framing *framing, struct text from)
{
    struct head head = { .trailer = true };
    size_t size = read_lines(framing, from, &head);
    if (size)
        framing->place = REQUEST;
    return size;
}

/* The line of its size, and its bytes. */
static uint64_t read_chunk(struct framing *framing, struct text from)
{
    struct text line;
    uint64_t size = 0;
    if (!read_line(framing, from, &line))
        return 0;
    size_t digits = span(line, DIGITS "abcdefABCDEF");
    if (digits == 0 || digits > 8 || (digits < line.length && line.at[digits] != ';'))
        return fail(framing, "the size of a chunk must be a number");
    for (size_t i = 0; i < digits; i++)
        size = 16 * size + (uint64_t)(line.at[i] <= '9' ? line.at[i] - '0' : (line.at[i] | 0x20) - 'a' + 10);
    framing->place = size ? CHUNK_END : TRAILER;
    return line.length + 2 + size;
}

static size_t end_chunk(struct framing *framing, struct text from)
{
    if (memcmp(from.at, "\r\n", from.length < 2 ? from.length : 2) != 0)
        return fail(framing, "a line must end with CR LF");
    if (from.length < 2)
        return 0;
    framing->place = CHUNK;
    return 2;
}

static uint64_t read_part(struct framing *framing, struct text from)
{
    switch ((enum place)framing->place) {
    case REQUEST:
        return read_request(framing, from);
    case CHUNK:
        return read_chunk(framing, from);
    case CHUNK_END:
        return end_chunk(framing, from);
    default:
        return read_trailer(framing, from);
    }
}

size_t framing_look(struct framing *framing, const char *bytes, size_t length)
{
    uint64_t part = 1;
    while (part && framing->good < length && !framing->fault) {
        struct text rest = behind((struct text){ bytes, length }, (size_t)framing->good);
        part = read_part(framing, rest);
        framing->good += part;
        framing->too_long = !part && !framing->fault && rest.length >= FRAMING_LONGEST;
        if (framing->too_long)
            fail(framing, "the headers are too long");
    }
    return framing->good < length ? (size_t)framing->good : length;
}

void framing_take(struct framing *framing, size_t length)
{
    framing->good -= length;
}
