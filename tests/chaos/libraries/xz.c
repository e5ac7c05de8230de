/* SPDX-License-Identifier: MIT
 *
 * xz (liblzma): some text is packed and unpacked. */
#include "library.h"

#include <lzma.h>

static int run(unsigned variant, uint64_t *sum)
{
    uint8_t text[1500], packed[3000], read[1500];
    size_t size = 0, in = 0, out = 0;
    uint64_t most = UINT64_MAX;
    lzma_options_lzma options;
    lzma_filter filters[] = { { .id = LZMA_FILTER_LZMA2, .options = &options }, { .id = LZMA_VLI_UNKNOWN } };
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)('a' + i * i / 7 % (3 + variant));
    if (lzma_lzma_preset(&options, variant % 4))
        return -1;
    options.dict_size = LZMA_DICT_SIZE_MIN;
    lzma_ret result =
        lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, text, sizeof text, packed, &size, sizeof packed);
    if (result == LZMA_OK)
        result = lzma_stream_buffer_decode(&most, 0, NULL, packed, &in, size, read, &out, sizeof read);
    if (result != LZMA_OK)
        return -1;
    chaos_add(sum, packed, size);
    chaos_add(sum, read, out);
    return 0;
}

const struct chaos_library CHAOS_ONE = {
    .name = "xz",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "liblzma",
    .version = lzma_version_string,
};
