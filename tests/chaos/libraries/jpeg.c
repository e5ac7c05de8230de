/* SPDX-License-Identifier: MIT
 *
 * libjpeg (turbo): an image is written into memory and read again. Its errors leave it by a jump. */
#include "library.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#define SIDE 32

struct errors {
    struct jpeg_error_mgr manager;
    jmp_buf landing;
};

static void leave(j_common_ptr info)
{
    longjmp(((struct errors *)info->err)->landing, 1);
}

static int pack(unsigned variant, unsigned char **bytes, unsigned long *size)
{
    struct jpeg_compress_struct info;
    struct errors errors;
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    if (setjmp(errors.landing) != 0) {
        jpeg_destroy_compress(&info);
        return -1;
    }
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, bytes, size);
    info.image_width = info.image_height = SIDE;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < SIDE) {
        unsigned char row[SIDE * 3];
        unsigned char *rows[] = { row };
        for (unsigned i = 0; i < sizeof row; i++)
            row[i] = (unsigned char)(i * (variant + 1) + info.next_scanline * 5);
        jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return 0;
}

static int unpack(const unsigned char *bytes, unsigned long size, uint64_t *sum)
{
    struct jpeg_decompress_struct info;
    struct errors errors;
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    if (setjmp(errors.landing) != 0) {
        jpeg_destroy_decompress(&info);
        return -1;
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes, size);
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
        unsigned char row[SIDE * 3];
        unsigned char *rows[] = { row };
        jpeg_read_scanlines(&info, rows, 1);
        chaos_add(sum, row, sizeof row);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    return 0;
}

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    int error = pack(variant, &bytes, &size);
    if (error == 0)
        error = unpack(bytes, size, sum);
    free(bytes);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libjpeg",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libjpeg",
};
