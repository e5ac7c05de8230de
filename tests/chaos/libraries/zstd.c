/* SPDX-License-Identifier: MIT
 *
 * zstd: some text is packed and unpacked. */
#include "library.h"

#include <zstd.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[2000], packed[3000], read[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i / 7 % (3 + variant));
    size_t size = ZSTD_compress(packed, sizeof packed, text, sizeof text, (int)variant + 1);
    size_t unpacked = ZSTD_isError(size) ? size : ZSTD_decompress(read, sizeof read, packed, size);
    if (ZSTD_isError(unpacked))
        return -1;
    chaos_add(sum, packed, size);
    chaos_add(sum, read, unpacked);
    return 0;
}

const struct chaos_library CHAOS_ONE = {
    .name = "zstd",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libzstd",
    .version = ZSTD_versionString,
};
