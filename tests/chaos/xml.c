/* SPDX-License-Identifier: MIT
 *
 * libxml2: a tree is parsed, searched by XPath and written out again; or read by the text reader; or is malformed, so
 * that an error is raised. Never STINT_FAIL: this version does not look at every allocation that fails.
 *
 * The last error of a thread lies in the thread's state and points to strings, which may be a task's. So it is reset
 * before the task ends, and by a guard when it is interrupted.
 *
 * Not preemptible: its locks are made by hand, of a mutex and a condition. While one of them is held, so is no lock
 * that stint knows of. Nothing that runs here allocates then, but a signal may come at any instruction. */
#include "library.h"

#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <libxml/xmlreader.h>
#include <libxml/xpath.h>
#include <stdio.h>

#define OPTIONS (XML_PARSE_NOENT | XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING)
#define DOCUMENT 16384

static char documents[CHAOS_VARIANTS][DOCUMENT];

static void write_document(char *text, unsigned variant)
{
    size_t length = (size_t)snprintf(text, DOCUMENT,
                                     "<?xml version=\"1.0\"?>\n<!DOCTYPE list [<!ENTITY name \"variant %u\">"
                                     "<!ENTITY twice \"&name; &name;\">]>\n<list xmlns:x=\"urn:x\">\n",
                                     variant);
    for (unsigned i = 0; i < 60 + variant * 10; i++)
        length += (size_t)snprintf(text + length, DOCUMENT - length,
                                   "<item id=\"i%u\" x:kind=\"%u\"><name>&twice; %u</name><![CDATA[<%u>]]></item>\n", i,
                                   i * variant % 7, i, i);
    /* Every third is malformed: its last tag ends another element. */
    snprintf(text + length, DOCUMENT - length, variant % 3 == 2 ? "</wrong>\n" : "</list>\n");
}

static void ready(void)
{
    xmlInitParser();
}

static void prepare(void)
{
    for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++)
        write_document(documents[variant], variant);
}

static const char expression[] = "//item[@id='i7']/name | //item[last()]/name";

static void add_matches(xmlDocPtr tree, uint64_t *sum)
{
    xmlXPathContextPtr context = xmlXPathNewContext(tree);
    if (context == NULL)
        return;
    xmlXPathObjectPtr found = xmlXPathEvalExpression((const xmlChar *)expression, context);
    for (int i = 0; found != NULL && found->nodesetval != NULL && i < found->nodesetval->nodeNr; i++) {
        xmlChar *text = xmlNodeGetContent(found->nodesetval->nodeTab[i]);
        chaos_add_text(sum, (const char *)text);
        xmlFree(text);
    }
    xmlXPathFreeObject(found);
    xmlXPathFreeContext(context);
}

static int read_tree(const char *text, uint64_t *sum)
{
    xmlDocPtr tree = xmlReadMemory(text, (int)strlen(text), NULL, NULL, OPTIONS);
    if (tree == NULL) {
        const xmlError *error = xmlGetLastError();
        chaos_add_number(sum, error != NULL ? (uint64_t)error->code : 0);
        chaos_add_text(sum, error != NULL ? error->message : NULL);
        return 0;
    }
    add_matches(tree, sum);
    xmlChar *written = NULL;
    int length = 0;
    xmlDocDumpFormatMemory(tree, &written, &length, 1);
    chaos_add(sum, written, (size_t)length);
    xmlFree(written);
    xmlFreeDoc(tree);
    return 0;
}

static int read_as_stream(const char *text, uint64_t *sum)
{
    xmlTextReaderPtr reader = xmlReaderForMemory(text, (int)strlen(text), NULL, NULL, OPTIONS);
    if (reader == NULL)
        return -1;
    int more;
    while ((more = xmlTextReaderRead(reader)) == 1) {
        chaos_add_number(sum, (uint64_t)xmlTextReaderNodeType(reader));
        chaos_add_text(sum, (const char *)xmlTextReaderConstValue(reader));
    }
    chaos_add_number(sum, (uint64_t)more);
    xmlFreeTextReader(reader);
    return 0;
}

static void reset_last_error(void *unused)
{
    (void)unused;
    xmlResetLastError();
}

static int run(unsigned variant, uint64_t *sum)
{
    stint_guard guard;
    stint_guard_push(&guard, reset_last_error, NULL);
    int error = variant % 2 == 0 ? read_tree(documents[variant], sum) : read_as_stream(documents[variant], sum);
    stint_guard_pop(&guard, true);
    return error;
}

/* A lock that an interrupted task had kept would never be had again: the watchdog would tell. */
static bool idle(void)
{
    xmlLockLibrary();
    xmlUnlockLibrary();
    return true;
}

static const char *version(void)
{
    return LIBXML_DOTTED_VERSION;
}

const struct chaos_library chaos_xml = {
    .name = "libxml2",
    .modes = CHAOS_LEAVING,
    .prepare = prepare,
    .ready = ready,
    .run = run,
    .idle = idle,
    .modules = "libxml2",
    .version = version,
};
