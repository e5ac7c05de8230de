/* SPDX-License-Identifier: MIT
 *
 * giflib: an image is written into memory and read again. */
#include "library.h"

#include <gif_lib.h>

#define SIDE 24
#define ROOM 4096

struct file {
    unsigned char bytes[ROOM];
    size_t at, size;
};

static int write_file(GifFileType *gif, const GifByteType *bytes, int size)
{
    struct file *file = gif->UserData;
    if (file->size + (size_t)size > ROOM)
        return 0;
    memcpy(file->bytes + file->size, bytes, (size_t)size);
    file->size += (size_t)size;
    return size;
}

static int read_file(GifFileType *gif, GifByteType *bytes, int size)
{
    struct file *file = gif->UserData;
    size_t left = file->size - file->at;
    size_t part = (size_t)size < left ? (size_t)size : left;
    memcpy(bytes, file->bytes + file->at, part);
    file->at += part;
    return (int)part;
}

static int write_image(GifFileType *gif, unsigned variant)
{
    ColorMapObject *colours = GifMakeMapObject(16, NULL);
    int result = colours != NULL ? GIF_OK : GIF_ERROR;
    for (int i = 0; i < 16 && result == GIF_OK; i++)
        colours->Colors[i] = (GifColorType){ (GifByteType)(i * 16), (GifByteType)variant, 0 };
    if (result == GIF_OK)
        result = EGifPutScreenDesc(gif, SIDE, SIDE, 4, 0, colours);
    if (result == GIF_OK)
        result = EGifPutImageDesc(gif, 0, 0, SIDE, SIDE, false, NULL);
    for (unsigned y = 0; y < SIDE && result == GIF_OK; y++) {
        GifByteType row[SIDE];
        for (unsigned x = 0; x < SIDE; x++)
            row[x] = (GifByteType)(x * y * (variant + 1) % 16);
        result = EGifPutLine(gif, row, SIDE);
    }
    GifFreeMapObject(colours);
    return result;
}

static int run(unsigned variant, uint64_t *sum)
{
    struct file file = { .at = 0 };
    int error;
    GifFileType *gif = EGifOpen(&file, write_file, &error);
    if (gif == NULL)
        return -1;
    int result = write_image(gif, variant);
    if (EGifCloseFile(gif, &error) != GIF_OK || result != GIF_OK)
        return -1;
    gif = DGifOpen(&file, read_file, &error);
    if (gif == NULL)
        return -1;
    result = DGifSlurp(gif);
    if (result == GIF_OK && gif->ImageCount == 1)
        chaos_add(sum, gif->SavedImages[0].RasterBits, SIDE * SIDE);
    DGifCloseFile(gif, &error);
    return result == GIF_OK ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "giflib",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libgif",
};
