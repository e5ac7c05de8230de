/* SPDX-License-Identifier: MIT
 *
 * jansson: a value is built, written, read back, compared and packed. The seed of its hash tables is made once in the
 * process, so it is made before the first task. */
#include "library.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static void ready(void)
{
    json_object_seed(0);
}

static json_t *build(unsigned variant)
{
    json_t *list = json_array();
    for (unsigned i = 0; list != NULL && i < 80 + variant * 10; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %u", i * 7 % 50);
        json_t *entry =
            json_pack("{s:i, s:[f,b,n], s:{s:s}}", "id", (int)i, "mixed", i / 8.0, (int)(i % 2), key, "name", key);
        if (entry == NULL || json_array_append_new(list, entry) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int run(unsigned variant, uint64_t *sum)
{
    json_t *built = build(variant);
    char *text = built != NULL ? json_dumps(built, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_error_t problem;
    json_t *read = text != NULL ? json_loads(text, 0, &problem) : NULL;
    if (read != NULL) {
        chaos_add_text(sum, text);
        chaos_add_number(sum, (uint64_t)json_equal(built, read));
    }
    int error = read != NULL ? 0 : -1;
    json_decref(read);
    free(text);
    json_decref(built);
    return error;
}

static const char *version(void)
{
    return jansson_version_str();
}

const struct chaos_library chaos_json = {
    .name = "jansson",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .modules = "libjansson",
    .version = version,
};
