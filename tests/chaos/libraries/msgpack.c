/* SPDX-License-Identifier: MIT
 *
 * msgpack: a map is packed, unpacked, and its objects are walked. */
#include "library.h"

#include <msgpack.h>

static void pack(msgpack_packer *packer, unsigned variant)
{
    msgpack_pack_map(packer, 20);
    for (unsigned i = 0; i < 20; i++) {
        msgpack_pack_unsigned_int(packer, i * variant * 1000);
        msgpack_pack_array(packer, 3);
        msgpack_pack_double(packer, i / 8.0);
        msgpack_pack_str_with_body(packer, "some words that are longer", i);
        msgpack_pack_nil(packer);
    }
}

static void walk(const msgpack_object *object, uint64_t *sum)
{
    chaos_add_number(sum, object->type);
    if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        chaos_add_number(sum, object->via.u64);
    else if (object->type == MSGPACK_OBJECT_STR)
        chaos_add(sum, object->via.str.ptr, object->via.str.size);
    for (unsigned i = 0; object->type == MSGPACK_OBJECT_ARRAY && i < object->via.array.size; i++)
        walk(&object->via.array.ptr[i], sum);
    for (unsigned i = 0; object->type == MSGPACK_OBJECT_MAP && i < object->via.map.size; i++) {
        walk(&object->via.map.ptr[i].key, sum);
        walk(&object->via.map.ptr[i].val, sum);
    }
}

static int run(unsigned variant, uint64_t *sum)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_unpacked unpacked;
    size_t at = 0;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    pack(&packer, variant);
    msgpack_unpacked_init(&unpacked);
    int result = msgpack_unpack_next(&unpacked, buffer.data, buffer.size, &at);
    if (result == MSGPACK_UNPACK_SUCCESS)
        walk(&unpacked.data, sum);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    return result == MSGPACK_UNPACK_SUCCESS ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "msgpack",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libmsgpackc",
    .version = msgpack_version,
};
