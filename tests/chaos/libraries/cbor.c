/* SPDX-License-Identifier: MIT
 *
 * libcbor: a map is built, written and read again. */
#include "library.h"

#include <cbor.h>
#include <stdio.h>

static bool add(cbor_item_t *map, const char *key, cbor_item_t *value)
{
    cbor_item_t *name = cbor_build_string(key);
    bool added = name != NULL && value != NULL && cbor_map_add(map, (struct cbor_pair){ name, value });
    if (name != NULL)
        cbor_decref(&name);
    if (value != NULL)
        cbor_decref(&value);
    return added;
}

static cbor_item_t *build(unsigned variant)
{
    cbor_item_t *map = cbor_new_indefinite_map();
    bool well = map != NULL;
    for (unsigned i = 0; i < 20 && well; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %u", i);
        well = add(map, key, i % 2 == 0 ? cbor_build_uint32(i * variant) : cbor_build_float8(i / 8.0));
    }
    if (!well && map != NULL)
        cbor_decref(&map);
    return well ? map : NULL;
}

static int run(unsigned variant, uint64_t *sum)
{
    cbor_item_t *built = build(variant);
    unsigned char *bytes = NULL;
    size_t room = 0;
    size_t size = built != NULL ? cbor_serialize_alloc(built, &bytes, &room) : 0;
    struct cbor_load_result result;
    cbor_item_t *read = size > 0 ? cbor_load(bytes, size, &result) : NULL;
    if (read != NULL) {
        chaos_add(sum, bytes, size);
        chaos_add_number(sum, cbor_map_size(read));
    }
    int error = read != NULL ? 0 : -1;
    if (read != NULL)
        cbor_decref(&read);
    free(bytes);
    if (built != NULL)
        cbor_decref(&built);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libcbor",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libcbor",
};
