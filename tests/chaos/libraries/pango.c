/* SPDX-License-Identifier: MIT
 *
 * Pango: a text with marks is laid out and drawn, with fonts that fontconfig finds. */
#include "library.h"

#include <pango/pangocairo.h>
#include <stdio.h>

#define SIDE 64

static int run(unsigned variant, uint64_t *sum)
{
    char text[96];
    int width, height;
    snprintf(text, sizeof text, "<b>%u</b> <i>two</i> <span size='large'>three</span>", variant);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, SIDE, SIDE);
    cairo_t *cairo = cairo_create(surface);
    PangoLayout *layout = pango_cairo_create_layout(cairo);
    pango_layout_set_width(layout, SIDE * PANGO_SCALE);
    pango_layout_set_markup(layout, text, -1);
    pango_layout_get_pixel_size(layout, &width, &height);
    pango_cairo_show_layout(cairo, layout);
    chaos_add_number(sum, (uint64_t)width * 1000 + (uint64_t)height);
    bool well = cairo_status(cairo) == CAIRO_STATUS_SUCCESS;
    g_object_unref(layout);
    cairo_destroy(cairo);
    cairo_surface_flush(surface);
    if (well)
        chaos_add(sum, cairo_image_surface_get_data(surface), (size_t)cairo_image_surface_get_stride(surface) * SIDE);
    cairo_surface_destroy(surface);
    return well ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "Pango",
    .modes = CHAOS_LEAVING,
    .run = run,
    .modules = "libpango-1.0:libpangocairo-1.0:libpangoft2-1.0:libharfbuzz:libglib-2.0:libgobject-2.0:libcairo:"
               "libpixman-1:libfontconfig:libfreetype:libfribidi",
    .version = pango_version_string,
};
