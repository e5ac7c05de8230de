/* SPDX-License-Identifier: MIT
 *
 * libtiff: an image is written into memory and read again, by functions of ours. */
#include "library.h"

#include <tiffio.h>

#define SIDE 24
#define ROOM 8192

struct file {
    unsigned char bytes[ROOM];
    size_t at, size;
};

static tmsize_t read_file(thandle_t handle, void *bytes, tmsize_t size)
{
    struct file *file = handle;
    size_t left = file->at < file->size ? file->size - file->at : 0;
    size_t part = (size_t)size < left ? (size_t)size : left;
    memcpy(bytes, file->bytes + file->at, part);
    file->at += part;
    return (tmsize_t)part;
}

static tmsize_t write_file(thandle_t handle, void *bytes, tmsize_t size)
{
    struct file *file = handle;
    if (file->at + (size_t)size > ROOM)
        return -1;
    memcpy(file->bytes + file->at, bytes, (size_t)size);
    file->at += (size_t)size;
    file->size = file->at > file->size ? file->at : file->size;
    return size;
}

static toff_t seek_file(thandle_t handle, toff_t offset, int from)
{
    struct file *file = handle;
    return file->at = (from == SEEK_SET ? 0 : from == SEEK_CUR ? file->at : file->size) + (size_t)offset;
}

static int close_file(thandle_t file)
{
    (void)file;
    return 0;
}

static toff_t size_of_file(thandle_t handle)
{
    return ((struct file *)handle)->size;
}

static TIFF *open_file(struct file *file, const char *how)
{
    file->at = 0;
    return TIFFClientOpen("memory", how, file, read_file, write_file, seek_file, close_file, size_of_file, NULL, NULL);
}

static int write_image(struct file *file, unsigned variant)
{
    TIFF *tiff = open_file(file, "wm");
    if (tiff == NULL)
        return -1;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, SIDE);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, SIDE);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, variant % 2 == 0 ? COMPRESSION_LZW : COMPRESSION_PACKBITS);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 8);
    int error = 0;
    for (unsigned y = 0; y < SIDE && error == 0; y++) {
        unsigned char row[SIDE];
        for (unsigned x = 0; x < SIDE; x++)
            row[x] = (unsigned char)(x * y / (variant + 1));
        error = TIFFWriteScanline(tiff, row, y, 0) == 1 ? 0 : -1;
    }
    if (error == 0 && TIFFFlush(tiff) != 1)
        error = -1;
    TIFFClose(tiff);
    return error;
}

static int read_image(struct file *file, uint64_t *sum)
{
    TIFF *tiff = open_file(file, "rm");
    if (tiff == NULL)
        return -1;
    int error = 0;
    for (unsigned y = 0; y < SIDE && error == 0; y++) {
        unsigned char row[SIDE];
        error = TIFFReadScanline(tiff, row, y, 0) == 1 ? 0 : -1;
        chaos_add(sum, row, error == 0 ? sizeof row : 0);
    }
    TIFFClose(tiff);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    struct file file = { .at = 0 };
    int error = write_image(&file, variant);
    return error == 0 ? read_image(&file, sum) : error;
}

static void prepare(void)
{
    TIFFSetErrorHandler(NULL); /* it would print */
    TIFFSetWarningHandler(NULL);
}

static const char *version(void)
{
    static char text[16];
    const char *said = TIFFGetVersion(); /* "LIBTIFF, Version 4.5.0", and more lines */
    memcpy(text, said + strcspn(said, "0123456789"), sizeof text - 1);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libtiff",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libtiff",
    .version = version,
};
