/* SPDX-License-Identifier: MIT
 *
 * HarfBuzz: words are shaped with a face from a file in memory. */
#include "library.h"

#include <hb-ot.h>
#include <hb.h>

static const char path[] = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
static const char *const words[CHAOS_VARIANTS] = {
    "office", "fluffy", "AVATAR", "na\xc3\xafve", "x\xcc\x81y", "To We"
};

static void shape(hb_font_t *font, const char *word, uint64_t *sum)
{
    hb_buffer_t *buffer = hb_buffer_create();
    hb_buffer_add_utf8(buffer, word, -1, 0, -1);
    hb_buffer_guess_segment_properties(buffer);
    hb_shape(font, buffer, NULL, 0);
    unsigned count;
    const hb_glyph_info_t *glyphs = hb_buffer_get_glyph_infos(buffer, &count);
    const hb_glyph_position_t *places = hb_buffer_get_glyph_positions(buffer, &count);
    for (unsigned i = 0; i < count; i++)
        chaos_add_number(sum, glyphs[i].codepoint * UINT64_C(100000) + (uint64_t)places[i].x_advance);
    hb_buffer_destroy(buffer);
}

static hb_blob_t *file;

/* It says nothing of refused allocations: a buffer without room is empty. */
static int run(unsigned variant, uint64_t *sum)
{
    hb_face_t *face = hb_face_create(file, 0);
    hb_font_t *font = hb_font_create(face);
    hb_ot_font_set_funcs(font);
    shape(font, words[variant], sum);
    hb_font_destroy(font);
    hb_face_destroy(face);
    return 0;
}

static void prepare(void)
{
    file = hb_blob_create_from_file(path);
}

const struct chaos_library CHAOS_ONE = {
    .name = "HarfBuzz",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libharfbuzz",
    .version = hb_version_string,
};
