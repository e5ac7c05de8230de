/* SPDX-License-Identifier: MIT
 *
 * Little CMS: colours are turned from one space into another. */
#include "library.h"

#include <lcms2.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    unsigned char in[3 * 16];
    double out[3 * 16];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * (variant + 3));
    cmsHPROFILE from = cmsCreate_sRGBProfile();
    cmsHPROFILE to = from != NULL ? cmsCreateLab4Profile(NULL) : NULL;
    cmsHTRANSFORM transform =
        to != NULL ? cmsCreateTransform(from, TYPE_RGB_8, to, TYPE_Lab_DBL, variant % 4, 0) : NULL;
    if (transform != NULL) {
        cmsDoTransform(transform, in, out, 16);
        cmsDeleteTransform(transform);
        for (size_t i = 0; i < 3 * 16; i++)
            chaos_add_number(sum, (uint64_t)(int64_t)(out[i] * 1000));
    }
    if (to != NULL)
        cmsCloseProfile(to);
    if (from != NULL)
        cmsCloseProfile(from);
    return transform != NULL ? 0 : -1;
}

static const char *version(void)
{
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", cmsGetEncodedCMMversion() / 1000, cmsGetEncodedCMMversion() % 1000 / 10);
    return text;
}

const struct chaos_library CHAOS_ONE = {
    .name = "Little CMS",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "liblcms2",
    .version = version,
};
