/* SPDX-License-Identifier: MIT
 *
 * cairo: fonts, glyphs, patterns and solid colours are kept in caches of the process, under locks that it creates at
 * first use. The font is drawn here, so that no file is needed. */
#include "library.h"

#include <cairo.h>
#include <math.h>

#define SIDE 96

/* --- A font whose letters are made of what the bits of their numbers say ------------------------------------------ */

static cairo_status_t draw_glyph(cairo_scaled_font_t *font, unsigned long glyph, cairo_t *cairo,
                                 cairo_text_extents_t *extents)
{
    (void)font;
    extents->x_advance = 0.7;
    for (unsigned bit = 0; bit < 6; bit++) {
        double x = bit % 2 * 0.3, y = -0.3 * (bit / 2) - 0.25;
        if (glyph >> bit & 1)
            cairo_arc(cairo, x + 0.15, y + 0.12, 0.14, 0, 2 * M_PI);
        else
            cairo_rectangle(cairo, x, y, 0.25, 0.2);
    }
    cairo_fill(cairo);
    return cairo_status(cairo);
}

static cairo_font_face_t *make_font(void)
{
    cairo_font_face_t *face = cairo_user_font_face_create();
    cairo_user_font_face_set_render_glyph_func(face, draw_glyph);
    return face;
}

/* --- Drawing ------------------------------------------------------------------------------------------------------ */

static void paint_gradients(cairo_t *cairo, uint64_t *random)
{
    cairo_pattern_t *linear = cairo_pattern_create_linear(0, 0, SIDE, SIDE);
    cairo_pattern_t *radial =
        cairo_pattern_create_radial(SIDE / 2.0, SIDE / 2.0, 5, SIDE / 2.0, SIDE / 2.0, SIDE / 2.0);
    for (unsigned stop = 0; stop < 8; stop++) {
        double red = (double)(random_of(random) % 256) / 255;
        cairo_pattern_add_color_stop_rgba(linear, stop / 7.0, red, 1 - red, 0.5, 0.9);
        cairo_pattern_add_color_stop_rgba(radial, stop / 7.0, 0.3, red, 1 - red, 0.6);
    }
    cairo_set_source(cairo, linear);
    cairo_paint(cairo);
    cairo_set_source(cairo, radial);
    cairo_rectangle(cairo, 8, 8, SIDE - 16, SIDE - 16);
    cairo_fill(cairo);
    cairo_pattern_destroy(radial);
    cairo_pattern_destroy(linear);
}

static void stroke_curves(cairo_t *cairo, uint64_t *random)
{
    const double dashes[] = { 5, 2, 1, 2 };
    for (unsigned i = 0; i < 6; i++) {
        cairo_set_source_rgba(cairo, (double)(random_of(random) % 100) / 99, 0.2, 0.7, 0.8);
        cairo_set_dash(cairo, dashes, i % 2 * 4, i);
        cairo_set_line_width(cairo, 1 + i);
        cairo_move_to(cairo, (double)(random_of(random) % SIDE), 0);
        cairo_curve_to(cairo, (double)(random_of(random) % SIDE), SIDE / 3.0, 0, SIDE / 2.0,
                       (double)(random_of(random) % SIDE), SIDE);
        cairo_stroke(cairo);
    }
}

static void write_text(cairo_t *cairo, uint32_t seed)
{
    const char text[] = { (char)('A' + seed % 26), (char)('a' + seed % 25), 'w', 'a', 'l', 'l', '\0' };
    cairo_font_face_t *face = make_font();
    cairo_set_font_face(cairo, face);
    for (unsigned i = 0; i < 4; i++) {
        cairo_set_font_size(cairo, 8 + (seed + i) % 7);
        cairo_save(cairo);
        cairo_rotate(cairo, 0.1 * i);
        cairo_move_to(cairo, 6, 20 + 18 * i);
        cairo_set_source_rgb(cairo, 0, 0, 0.2 * i);
        cairo_show_text(cairo, text);
        cairo_restore(cairo);
    }
    cairo_font_face_destroy(face);
}

/* Drawn beside the image, recorded first and then painted through a mask. */
static void paint_recorded(cairo_t *cairo, uint32_t seed)
{
    const cairo_rectangle_t whole = { 0, 0, SIDE, SIDE };
    cairo_surface_t *recorded = cairo_recording_surface_create(CAIRO_CONTENT_COLOR_ALPHA, &whole);
    cairo_t *recorder = cairo_create(recorded);
    cairo_set_source_rgb(recorder, 0.9, 0.4, 0.1);
    cairo_arc(recorder, SIDE / 2.0, SIDE / 2.0, 10 + seed % 20, 0, 2 * M_PI);
    cairo_fill(recorder);
    cairo_destroy(recorder);
    cairo_set_source_surface(cairo, recorded, 3, 5);
    cairo_paint_with_alpha(cairo, 0.5);
    cairo_surface_destroy(recorded);
}

static int work(uint32_t seed, uint64_t *sum)
{
    uint64_t random = seed;
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, SIDE, SIDE);
    cairo_t *cairo = cairo_create(surface);
    paint_gradients(cairo, &random);
    stroke_curves(cairo, &random);
    write_text(cairo, seed);
    paint_recorded(cairo, seed);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    cairo_surface_flush(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        sum_bytes(sum, cairo_image_surface_get_data(surface), (size_t)cairo_image_surface_get_stride(surface) * SIDE);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_NO_MEMORY)
        return ENOMEM;
    return status == CAIRO_STATUS_SUCCESS ? 0 : EBADMSG;
}

const struct library library_cairo = { "cairo", { NULL }, work };
