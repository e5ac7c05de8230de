/* SPDX-License-Identifier: MIT
 *
 * What form of an answer an Accept header asks for; see accept.h. */
#include "accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct wish {
    int precision; /* of the range that it is from: text/csv before text/ * before * / * */
    double quality;
};

static bool names(const char *range, size_t length, const char *type)
{
    return strlen(type) == length && strncasecmp(range, type, length) == 0;
}

/* The quality among the parameters of a range, which end at the next comma. */
static double quality_of(const char *parameters)
{
    for (const char *at = parameters; *at == ';'; at += strcspn(at, ";,")) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, "q=", 2) == 0)
            return strtod(at + 2, NULL);
    }
    return 1;
}

static void look(struct wish *wish, const char *range, size_t length, double quality, const char *type)
{
    char family[32];
    size_t slash = strcspn(type, "/");
    memcpy(family, type, slash + 1);
    memcpy(family + slash + 1, "*", 2);
    int precision = names(range, length, type)     ? 3
                    : names(range, length, family) ? 2
                    : names(range, length, "*/*")  ? 1
                                                   : 0;
    if (precision > wish->precision)
        *wish = (struct wish){ precision, quality };
}

bool accept_choose(const char *accept, rows_format *format)
{
    struct wish json = { 0, 0 }, csv = { 0, 0 };
    *format = ROWS_JSON;
    if (!accept || !accept[strspn(accept, " \t")])
        return true;
    for (const char *at = accept; *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        size_t length = strcspn(at, ";, \t");
        const char *parameters = at + length + strspn(at + length, " \t");
        double quality = quality_of(parameters);
        look(&json, at, length, quality, "application/json");
        look(&csv, at, length, quality, "text/csv");
    }
    if (csv.quality > json.quality)
        *format = ROWS_CSV;
    return csv.quality > 0 || json.quality > 0;
}
