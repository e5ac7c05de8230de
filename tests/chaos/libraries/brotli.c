/* SPDX-License-Identifier: MIT
 *
 * brotli: some text is packed and unpacked. */
#include "library.h"

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    uint8_t text[1500], packed[3000], read[1500];
    size_t size = sizeof packed, unpacked = sizeof read;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)('a' + i * i / 7 % (3 + variant));
    if (!BrotliEncoderCompress((int)variant, 16, BROTLI_MODE_GENERIC, sizeof text, text, &size, packed) ||
        BrotliDecoderDecompress(size, packed, &unpacked, read) != BROTLI_DECODER_RESULT_SUCCESS)
        return -1;
    chaos_add(sum, packed, size);
    chaos_add(sum, read, unpacked);
    return 0;
}

static const char *version(void)
{
    static char text[16];
    unsigned number = BrotliEncoderVersion();
    snprintf(text, sizeof text, "%u.%u.%u", number >> 24, number >> 12 & 0xfff, number & 0xfff);
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "brotli",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libbrotlienc:libbrotlidec:libbrotlicommon",
    .version = version,
};
