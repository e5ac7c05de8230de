/* SPDX-License-Identifier: MIT
 *
 * json-c: a text is read and written. */
#include "library.h"

#include <json-c/json.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[512];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"list\": [");
    for (unsigned i = 0; i < 12; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "{\"id\": %u, \"x\": %u.5},", i, i * variant);
    snprintf(text + length, sizeof text - length, "null]}");
    enum json_tokener_error result;
    json_object *json = json_tokener_parse_verbose(text, &result);
    if (json == NULL)
        return -1;
    const char *written = json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY);
    chaos_add_text(sum, written);
    json_object_put(json);
    return written != NULL ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "json-c",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libjson-c",
    .version = json_c_version,
};
