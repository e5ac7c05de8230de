/* SPDX-License-Identifier: MIT
 *
 * libpng: an image is written into memory and read again. */
#include "library.h"

#include <png.h>

#define SIDE 24

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char pixels[SIDE * SIDE * 3];
    unsigned char packed[4096];
    unsigned char read[sizeof pixels];
    png_image image = { .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB };
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * (variant + 1) / 3);
    size_t size = sizeof packed;
    if (!png_image_write_to_memory(&image, packed, &size, 0, pixels, 0, NULL))
        return -1;
    png_image other = { .version = PNG_IMAGE_VERSION };
    int error = -1;
    if (png_image_begin_read_from_memory(&other, packed, size)) {
        other.format = PNG_FORMAT_RGB;
        if (png_image_finish_read(&other, NULL, read, 0, NULL))
            error = 0;
        png_image_free(&other);
    }
    chaos_add(sum, read, error == 0 ? sizeof read : 0);
    return error;
}

static const char *version(void)
{
    return png_get_libpng_ver(NULL);
}

const struct chaos_library CHAOS_ONE = {
    .name = "libpng",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libpng16",
    .version = version,
};
