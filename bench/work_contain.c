/* SPDX-License-Identifier: MIT
 *
 * What has to be contained, and what the process around it holds meanwhile. */
#include <libxml/parser.h>
#include <limits.h>
#include <stdio.h>
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

#define ORDER_SIZE 4096

const char *work_order(size_t *size)
{
    static char order[ORDER_SIZE];
    static size_t length;
    if (length == 0) {
        length = (size_t)snprintf(order, sizeof order, "<order number='17'>\n");
        for (int line = 0; length < ORDER_SIZE - 200; line++)
            length += (size_t)snprintf(order + length, sizeof order - length,
                                       "<line number='%d'><article>A%d</article><note>Some <b>words</b> &amp; "
                                       "more of them</note><price currency='EUR'>%d.50</price></line>\n",
                                       line, 100 + line, 7 * line);
        length += (size_t)snprintf(order + length, sizeof order - length, "</order>\n");
    }
    *size = length;
    return order;
}

static int count_elements(const xmlNode *node)
{
    int count = 0;
    for (; node != NULL; node = node->next)
        count += node->type == XML_ELEMENT_NODE ? 1 + count_elements(node->children) : 0;
    return count;
}

int work_parse_order(const char *order, size_t size)
{
    xmlDoc *tree = xmlReadMemory(order, (int)size, NULL, NULL, XML_PARSE_NONET);
    if (tree == NULL)
        return -1;
    int count = count_elements(xmlDocGetRootElement(tree));
    xmlFreeDoc(tree);
    return count;
}

void work_parse_first(unsigned workers)
{
    size_t size;
    const char *order = work_order(&size);
    (void)workers;
    if (work_parse_order(order, size) < 0)
        exit(1);
}
