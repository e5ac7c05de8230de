/* SPDX-License-Identifier: MIT
 *
 * JSON, by jansson. The library needs no teaching: every value it reads is an allocation. */
#include "library.h"

#include <errno.h>
#include <jansson.h>

void json_ready(void)
{
    json_object_seed(0); /* else made by the first object, inside a task */
}

/* Recursion is safe: jansson reads no deeper than 2048 levels. */
static uint64_t count_values(json_t *value)
{
    uint64_t count = 1;
    size_t index;
    const char *key;
    json_t *below;
    json_array_foreach(value, index, below)
    {
        count += count_values(below);
    }
    json_object_foreach(value, key, below)
    {
        count += count_values(below);
    }
    return count;
}

int json_parse(parse_document *document, const char *text, size_t size)
{
    json_error_t problem;
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (!value) {
        parse_explain(document, "line %d: %s", problem.line, problem.text);
        return json_error_code(&problem) == json_error_out_of_memory ? ENOMEM : EBADMSG;
    }
    document->items = count_values(value);
    json_decref(value);
    return 0;
}
