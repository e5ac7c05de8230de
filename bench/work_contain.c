/* SPDX-License-Identifier: MIT
 *
 * What has to be contained, and what the process around it holds meanwhile. */
#include <libxml/parser.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

#define HELD ((size_t)256000000)
#define PIECE ((size_t)1000000)

void work_hold_much(unsigned workers)
{
    (void)workers;
    for (size_t i = 0; i < HELD / PIECE; i++) {
        void *volatile piece = malloc(PIECE);
        if (piece == NULL)
            exit(1);
        memset(piece, 1, PIECE);
    }
}

static void say_nothing(void *context, const char *format, ...)
{
    (void)context;
    (void)format;
}

void work_billion_laughs(void)
{
    static const char bomb[] =
        "<!DOCTYPE laughs [<!ENTITY a0 'lol'>"
        "<!ENTITY a1 '&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;&a0;'><!ENTITY a2 '&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;&a1;'>"
        "<!ENTITY a3 '&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;&a2;'><!ENTITY a4 '&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;&a3;'>"
        "<!ENTITY a5 '&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;&a4;'><!ENTITY a6 '&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;&a5;'>"
        "<!ENTITY a7 '&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;&a6;'><!ENTITY a8 '&a7;&a7;&a7;&a7;&a7;&a7;&a7;&a7;&a7;&a7;'>"
        "<!ENTITY a9 '&a8;&a8;&a8;&a8;&a8;&a8;&a8;&a8;&a8;&a8;'>]><laughs>&a9;</laughs>";
    xmlSetGenericErrorFunc(NULL, say_nothing);
    xmlParserCtxtPtr context = xmlNewParserCtxt();
    if (context == NULL)
        return;
#if LIBXML_VERSION >= 21300
    xmlCtxtSetMaxAmplification(context, UINT_MAX); /* bounded by then even with XML_PARSE_HUGE */
#endif
    xmlFreeDoc(xmlCtxtReadMemory(context, bomb, sizeof bomb - 1, NULL, NULL,
                                 XML_PARSE_NOENT | XML_PARSE_HUGE | XML_PARSE_NOERROR));
    xmlFreeParserCtxt(context);
}
