/* SPDX-License-Identifier: MIT
 *
 * HTML Tidy: a page with mistakes is mended. A refused allocation ends the process, so never STINT_FAIL. */
#include "library.h"

#include <stdio.h>
#include <tidy/tidy.h>
#include <tidy/tidybuffio.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[256];
    TidyBuffer made = { 0 }, said = { 0 };
    snprintf(text, sizeof text, "<title>page %u<p>one <b>two<i>three</b></i><ul><li>%u<li>four &amp five</ul><table>",
             variant, variant * 7);
    TidyDoc tidy = tidyCreate();
    if (tidy == NULL)
        return -1;
    tidyBufInit(&made);
    tidyBufInit(&said);
    bool well = tidyOptSetBool(tidy, TidyMark, no) && tidySetErrorBuffer(tidy, &said) == 0 &&
                tidyParseString(tidy, text) >= 0 && tidyCleanAndRepair(tidy) >= 0 && tidySaveBuffer(tidy, &made) >= 0;
    if (well)
        chaos_add(sum, made.bp, made.size);
    tidyBufFree(&made);
    tidyBufFree(&said);
    tidyRelease(tidy);
    return well ? 0 : -1;
}

const struct chaos_library CHAOS_ONE = {
    .name = "tidy",
    .modes = CHAOS_LEAVING,
    .preemptible = true,
    .run = run,
    .modules = "libtidy",
    .version = tidyLibraryVersion,
};
