/* SPDX-License-Identifier: MIT
 *
 * bzip2: some text is packed and unpacked. */
#include "library.h"

#include <bzlib.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[800], packed[2000], read[800];
    unsigned size = sizeof packed, unpacked = sizeof read;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i / 7 % (3 + variant));
    int result = BZ2_bzBuffToBuffCompress(packed, &size, text, sizeof text, 1, 0, 0);
    if (result == BZ_OK)
        result = BZ2_bzBuffToBuffDecompress(read, &unpacked, packed, size, variant % 2 == 0, 0);
    if (result != BZ_OK)
        return -1;
    chaos_add(sum, packed, size);
    chaos_add(sum, read, unpacked);
    return 0;
}

const struct chaos_library CHAOS_ONE = {
    .name = "bzip2",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libbz2",
    .version = BZ2_bzlibVersion,
};
