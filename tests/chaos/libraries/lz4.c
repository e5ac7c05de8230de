/* SPDX-License-Identifier: MIT
 *
 * lz4: some text is packed into a frame and unpacked. */
#include "library.h"

#include <lz4.h>
#include <lz4frame.h>

static int unpack(LZ4F_dctx *context, const char *packed, size_t size, uint64_t *sum)
{
    char read[500];
    size_t result = 1;
    for (size_t at = 0; result != 0;) {
        size_t in = size - at, out = sizeof read;
        result = LZ4F_decompress(context, read, &out, packed + at, &in, NULL);
        if (LZ4F_isError(result))
            return -1;
        at += in;
        chaos_add(sum, read, out);
    }
    return 0;
}

static int run(unsigned variant, uint64_t *sum)
{
    char text[2000], packed[4000];
    LZ4F_preferences_t wanted = { .compressionLevel = (int)variant * 2 };
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i / 7 % (3 + variant));
    size_t size = LZ4F_compressFrame(packed, sizeof packed, text, sizeof text, &wanted);
    LZ4F_dctx *context = NULL;
    if (LZ4F_isError(size) || LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return -1;
    int error = unpack(context, packed, size, sum);
    LZ4F_freeDecompressionContext(context);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "lz4",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "liblz4",
    .version = LZ4_versionString,
};
