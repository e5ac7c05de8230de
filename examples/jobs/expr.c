/* SPDX-License-Identifier: MIT
 *
 * Arithmetic, one expression a file, by a parser that calls itself for each bracket, as those written by hand do. How
 * deep a file may be nested is for the size of the stack to say: what is nested deeper is an Error of the task. */
#include "library.h"

#include <ctype.h>
#include <errno.h>

struct parser {
    const char *at;
    uint64_t numbers;
    bool failed;
};

static void skip_spaces(struct parser *parser)
{
    while (isspace((unsigned char)*parser->at))
        parser->at++;
}

static bool take(struct parser *parser, char wanted)
{
    skip_spaces(parser);
    if (*parser->at != wanted)
        return false;
    parser->at++;
    return true;
}

static double parse_sum(struct parser *parser);

static double parse_number(struct parser *parser)
{
    skip_spaces(parser);
    if (!isdigit((unsigned char)*parser->at)) {
        parser->failed = true;
        return 0;
    }
    double number = 0;
    for (; isdigit((unsigned char)*parser->at); parser->at++)
        number = number * 10 + (*parser->at - '0');
    parser->numbers++;
    return number;
}

static double parse_factor(struct parser *parser)
{
    if (take(parser, '-'))
        return -parse_factor(parser);
    if (!take(parser, '('))
        return parse_number(parser);
    double value = parse_sum(parser);
    parser->failed = parser->failed || !take(parser, ')');
    return value;
}

static double parse_product(struct parser *parser)
{
    double value = parse_factor(parser);
    while (!parser->failed && take(parser, '*'))
        value *= parse_factor(parser);
    return value;
}

static double parse_sum(struct parser *parser)
{
    double value = parse_product(parser);
    while (!parser->failed && take(parser, '+'))
        value += parse_product(parser);
    return value;
}

int expr_parse(parse_document *document, const char *text, size_t size)
{
    struct parser parser = { .at = text };
    parse_sum(&parser);
    skip_spaces(&parser);
    if (parser.failed || parser.at != text + size) {
        parse_explain(document, "byte %td: unexpected", parser.at - text);
        return EBADMSG;
    }
    document->items = parser.numbers;
    return 0;
}
