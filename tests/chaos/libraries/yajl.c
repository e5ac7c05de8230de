/* SPDX-License-Identifier: MIT
 *
 * YAJL: a text is read into a tree, which is written again. */
#include "library.h"

#include <stdio.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>
#include <yajl/yajl_version.h>

static yajl_gen_status write_value(yajl_gen out, yajl_val value)
{
    yajl_gen_status status = yajl_gen_status_ok;
    if (YAJL_IS_OBJECT(value)) {
        status = yajl_gen_map_open(out);
        for (size_t i = 0; i < value->u.object.len && status == yajl_gen_status_ok; i++) {
            const char *key = value->u.object.keys[i];
            status = yajl_gen_string(out, (const unsigned char *)key, strlen(key));
            if (status == yajl_gen_status_ok)
                status = write_value(out, value->u.object.values[i]);
        }
        return status == yajl_gen_status_ok ? yajl_gen_map_close(out) : status;
    }
    if (YAJL_IS_ARRAY(value)) {
        status = yajl_gen_array_open(out);
        for (size_t i = 0; i < value->u.array.len && status == yajl_gen_status_ok; i++)
            status = write_value(out, value->u.array.values[i]);
        return status == yajl_gen_status_ok ? yajl_gen_array_close(out) : status;
    }
    return YAJL_IS_NUMBER(value) ? yajl_gen_double(out, value->u.number.d) : yajl_gen_null(out);
}

static int run(unsigned variant, uint64_t *sum)
{
    char text[512];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"list\": [");
    for (unsigned i = 0; i < 12; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "{\"id\": %u, \"x\": %u.5},", i, i * variant);
    snprintf(text + length, sizeof text - length, "null]}");
    yajl_val tree = yajl_tree_parse(text, NULL, 0);
    yajl_gen out = tree != NULL ? yajl_gen_alloc(NULL) : NULL;
    const unsigned char *written = NULL;
    size_t size = 0;
    int error = out != NULL && write_value(out, tree) == yajl_gen_status_ok &&
                        yajl_gen_get_buf(out, &written, &size) == yajl_gen_status_ok
                    ? 0
                    : -1;
    chaos_add(sum, written, size);
    if (out != NULL)
        yajl_gen_free(out);
    yajl_tree_free(tree);
    return error;
}

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", YAJL_MAJOR, YAJL_MINOR, YAJL_MICRO);
    return text;
}

/* It looks at no allocation, so never STINT_FAIL. */
const struct chaos_library CHAOS_ONE = {
    .name = "YAJL",
    .modes = CHAOS_LEAVING,
    .preemptible = true,
    .run = run,
    .modules = "libyajl",
    .version = version,
};
