/* SPDX-License-Identifier: MIT
 *
 * MuPDF: a small PDF document is made in memory, opened and drawn. */
#include "library.h"

#include <mupdf/fitz.h>
#include <stdio.h>

#define ROOM 1024

/* Its tables are broken on purpose: MuPDF makes them anew. */
static size_t write_document(char *text, unsigned variant)
{
    return (size_t)snprintf(text, ROOM,
                            "%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
                            "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
                            "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 40 40]/Contents 4 0 R>>endobj\n"
                            "4 0 obj<</Length 49>>stream\n0.%u g 4 4 20 20 re f 1 0 0 RG 2 2 m 38 30 l S %08u\n"
                            "endstream endobj\ntrailer<</Root 1 0 R>>\n",
                            variant + 1, variant);
}

static int draw(fz_context *context, char *text, size_t size, uint64_t *sum)
{
    fz_stream *volatile stream = NULL;
    fz_document *volatile document = NULL;
    fz_pixmap *volatile picture = NULL;
    volatile int error = 0;
    fz_try(context)
    {
        fz_register_document_handlers(context);
        stream = fz_open_memory(context, (unsigned char *)text, size);
        document = fz_open_document_with_stream(context, "application/pdf", stream);
        picture = fz_new_pixmap_from_page_number(context, document, 0, fz_identity, fz_device_rgb(context), 0);
        chaos_add(sum, fz_pixmap_samples(context, picture),
                  (size_t)fz_pixmap_stride(context, picture) * (size_t)fz_pixmap_height(context, picture));
    }
    fz_always(context)
    {
        fz_drop_pixmap(context, picture);
        fz_drop_document(context, document);
        fz_drop_stream(context, stream);
    }
    fz_catch(context) error = -1;
    return error;
}

static void be_quiet(void *unused, const char *text)
{
    (void)unused;
    (void)text;
}

static int run(unsigned variant, uint64_t *sum)
{
    char text[ROOM];
    size_t size = write_document(text, variant);
    fz_context *context = fz_new_context(NULL, NULL, FZ_STORE_DEFAULT);
    if (context == NULL)
        return -1;
    fz_set_warning_callback(context, be_quiet, NULL);
    fz_set_error_callback(context, be_quiet, NULL);
    int error = draw(context, text, size, sum);
    fz_drop_context(context);
    return error;
}

static const char *version(void)
{
    return FZ_VERSION;
}

/* It is linked into the program. */
const struct chaos_library CHAOS_ONE = {
    .name = "MuPDF",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libmujs:libgumbo:libopenjp2:libjbig2dec:libjpeg:libfreetype:libpng16",
    .version = version,
};
