/* SPDX-License-Identifier: MIT
 *
 * cJSON: a text is read, changed and written. */
#include "library.h"

#include <cjson/cJSON.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[512];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"list\": [");
    for (unsigned i = 0; i < 12; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "{\"id\": %u, \"x\": %u.5},", i, i * variant);
    snprintf(text + length, sizeof text - length, "null]}");
    cJSON *json = cJSON_Parse(text);
    if (json == NULL)
        return -1;
    char *written = cJSON_AddStringToObject(json, "name", "a \"name\"") != NULL ? cJSON_Print(json) : NULL;
    chaos_add_text(sum, written);
    int error = written != NULL ? 0 : -1;
    free(written);
    cJSON_Delete(json);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "cJSON",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libcjson",
    .version = cJSON_Version,
};
