/* SPDX-License-Identifier: MIT
 *
 * librsvg: written in Rust, above GLib, cairo and libxml2, with what each of those keeps for the process. A refused
 * allocation ends the process. */
#include "library.h"

#include <librsvg/rsvg.h>
#include <stdio.h>

#define SIDE 64

static int write_image(char *text, size_t size, uint32_t seed)
{
    return snprintf(text, size,
                    "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d'>"
                    "<defs><linearGradient id='g'><stop offset='0' stop-color='#%06x'/>"
                    "<stop offset='1' stop-color='blue'/></linearGradient>"
                    "<clipPath id='c'><circle cx='32' cy='32' r='%u'/></clipPath></defs>"
                    "<style>.a { stroke: red; stroke-width: %u } #b > rect { opacity: 0.5 }</style>"
                    "<rect width='64' height='64' fill='url(#g)' clip-path='url(#c)'/>"
                    "<g id='b' transform='rotate(%u 32 32)'><rect class='a' x='8' y='8' width='20' height='30'/>"
                    "<path class='a' d='M4 60 C 20 4 40 4 60 60 Z' fill='none'/></g></svg>",
                    SIDE, SIDE, (unsigned)seed * 9973 % 0x1000000, 10 + (unsigned)seed % 20, 1 + (unsigned)seed % 5,
                    (unsigned)seed * 7 % 90);
}

static int render(RsvgHandle *handle, uint64_t *sum)
{
    const RsvgRectangle whole = { 0, 0, SIDE, SIDE };
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, SIDE, SIDE);
    cairo_t *cairo = cairo_create(surface);
    bool well = rsvg_handle_render_document(handle, cairo, &whole, NULL) && cairo_status(cairo) == CAIRO_STATUS_SUCCESS;
    cairo_destroy(cairo);
    cairo_surface_flush(surface);
    if (well)
        sum_bytes(sum, cairo_image_surface_get_data(surface), (size_t)cairo_image_surface_get_stride(surface) * SIDE);
    cairo_surface_destroy(surface);
    return well ? 0 : EBADMSG;
}

static int work(uint32_t seed, uint64_t *sum)
{
    char text[2048];
    int length = write_image(text, sizeof text, seed);
    RsvgHandle *handle = rsvg_handle_new_from_data((const guint8 *)text, (gsize)length, NULL);
    int error = handle != NULL ? render(handle, sum) : EBADMSG;
    if (handle != NULL)
        g_object_unref(handle);
    return error;
}

const struct library library_rsvg = { "librsvg", { NULL }, work };
