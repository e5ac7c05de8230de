/* SPDX-License-Identifier: MIT
 *
 * FreeType: a face is opened from memory, and letters are drawn. */
#include "library.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include <stdio.h>

static const char path[] = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
static unsigned char *font;
static long font_size;

static int draw(FT_Face face, unsigned variant, uint64_t *sum)
{
    int error = FT_Set_Pixel_Sizes(face, 0, 12 + variant);
    for (unsigned letter = 'A'; letter < 'D' && error == 0; letter++) {
        error = FT_Load_Char(face, letter + variant, FT_LOAD_RENDER);
        const FT_Bitmap *bitmap = &face->glyph->bitmap;
        for (unsigned y = 0; y < bitmap->rows && error == 0; y++)
            chaos_add(sum, bitmap->buffer + (long)y * bitmap->pitch, bitmap->width);
    }
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    FT_Library library;
    FT_Face face;
    if (FT_Init_FreeType(&library) != 0)
        return -1;
    int error = FT_New_Memory_Face(library, font, font_size, 0, &face);
    if (error == 0) {
        error = draw(face, variant, sum);
        FT_Done_Face(face);
    }
    FT_Done_FreeType(library);
    return error;
}

static void prepare(void)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (font_size = ftell(file)) <= 0)
        abort();
    rewind(file);
    font = malloc((size_t)font_size);
    if (font == NULL || fread(font, (size_t)font_size, 1, file) != 1)
        abort();
    fclose(file);
}

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", FREETYPE_MAJOR, FREETYPE_MINOR, FREETYPE_PATCH);
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "FreeType",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libfreetype",
    .version = version,
};
