/* SPDX-License-Identifier: MIT
 *
 * libwebp: an image is packed without loss and unpacked. */
#include "library.h"

#include <stdio.h>
#include <webp/decode.h>
#include <webp/encode.h>

#define SIDE 12

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char pixels[SIDE * SIDE * 3];
    unsigned char *packed = NULL;
    int width, height;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i / 7 * (variant + 1));
    size_t size = variant % 2 == 0 ? WebPEncodeLosslessRGB(pixels, SIDE, SIDE, SIDE * 3, &packed)
                                   : WebPEncodeRGB(pixels, SIDE, SIDE, SIDE * 3, 50, &packed);
    unsigned char *read = size > 0 ? WebPDecodeRGB(packed, size, &width, &height) : NULL;
    if (read != NULL)
        chaos_add(sum, read, sizeof pixels);
    int error = read != NULL ? 0 : -1;
    WebPFree(read);
    WebPFree(packed);
    return error;
}

static const char *version(void)
{
    static char text[16];
    int number = WebPGetEncoderVersion();
    snprintf(text, sizeof text, "%d.%d.%d", number >> 16, number >> 8 & 255, number & 255);
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libwebp",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libwebp",
    .version = version,
};
