/* SPDX-License-Identifier: MIT
 *
 * cmark: a text is read and written as HTML. A refused allocation ends the process, so never STINT_FAIL. */
#include "library.h"

#include <cmark.h>
#include <stdio.h>

static int run(unsigned variant, uint64_t *sum)
{
    char text[512];
    int length =
        snprintf(text, sizeof text,
                 "# title %u\n\nsome *text* with **%u** [links](http://host/%u)\n\n- one\n- two\n  - `three`\n\n"
                 "> quoted\n\n```\ncode\n```\n\n<b>&copy;</b> ![image](there \"title\")\n",
                 variant, variant * 7, variant);
    char *html = cmark_markdown_to_html(text, (size_t)length, CMARK_OPT_SMART);
    if (html == NULL)
        return -1;
    chaos_add_text(sum, html);
    free(html);
    return 0;
}

const struct chaos_library CHAOS_ONE = {
    .name = "cmark",
    .modes = CHAOS_LEAVING,
    .preemptible = true,
    .run = run,
    .modules = "libcmark",
    .version = cmark_version_string,
};
