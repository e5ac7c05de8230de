/* SPDX-License-Identifier: MIT
 *
 * libxslt: a document is turned into another by a sheet of styles. As libxml2, it is never preemptible. */
#include "library.h"

#include <libxml/parser.h>
#include <libxslt/transform.h>
#include <libxslt/xslt.h>
#include <libxslt/xsltInternals.h>
#include <libxslt/xsltutils.h>
#include <stdio.h>

static const char sheet[] =
    "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'><x:output method='text'/>"
    "<x:template match='/r'><x:for-each select='i[@n mod 2 = 1]'><x:sort select='@n' order='descending'/>"
    "<x:value-of select='concat(@n, &quot;:&quot;, normalize-space(.))'/>;</x:for-each></x:template></x:stylesheet>";

static xmlDocPtr read_text(const char *text, size_t size)
{
    return xmlReadMemory(text, (int)size, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

static int transform(xsltStylesheetPtr style, xmlDocPtr document, uint64_t *sum)
{
    xmlDocPtr made = xsltApplyStylesheet(style, document, NULL);
    xmlChar *text = NULL;
    int size = 0;
    int error = made != NULL ? xsltSaveResultToString(&text, &size, made, style) : -1;
    if (error == 0 && text != NULL)
        chaos_add(sum, text, (size_t)size);
    error = error == 0 && text != NULL ? 0 : -1;
    xmlFree(text);
    xmlFreeDoc(made);
    return error;
}

static void forget(void *unused)
{
    (void)unused;
    xmlResetLastError();
}

static int run(unsigned variant, uint64_t *sum)
{
    char text[512];
    size_t length = (size_t)snprintf(text, sizeof text, "<r>");
    for (unsigned i = 0; i < 12; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "<i n='%u'> a %u </i>", i * 7 % 13, variant);
    length += (size_t)snprintf(text + length, sizeof text - length, "</r>");
    stint_guard guard;
    stint_guard_push(&guard, forget, NULL);
    xmlDocPtr document = read_text(text, length);
    xmlDocPtr source = document != NULL ? read_text(sheet, sizeof sheet - 1) : NULL;
    xsltStylesheetPtr style = source != NULL ? xsltParseStylesheetDoc(source) : NULL;
    if (style == NULL)
        xmlFreeDoc(source);
    int error = style != NULL ? transform(style, document, sum) : -1;
    xsltFreeStylesheet(style);
    xmlFreeDoc(document);
    stint_guard_pop(&guard, true);
    return error;
}

static void be_quiet(void *unused, const char *text, ...)
{
    (void)unused;
    (void)text;
}

static void prepare(void)
{
    xsltSetGenericErrorFunc(NULL, be_quiet);
}

static void ready(void)
{
    xmlInitParser();
    xsltInit();
}

static const char *version(void)
{
    return LIBXSLT_DOTTED_VERSION;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libxslt",
    .modes = CHAOS_ANY_MODE,
    .prepare = prepare,
    .ready = ready,
    .run = run,
    .modules = "libxslt:libxml2",
    .version = version,
};
