/* SPDX-License-Identifier: MIT
 *
 * XML, by libxml2. It needs no teaching: whatever takes it long also allocates, and an allocation is a sample point.
 * Its own limits are off (XML_PARSE_HUGE), and entities are replaced, so that only the budget holds. */
#include "library.h"

#include <errno.h>
#include <libxml/catalog.h>
#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <limits.h>
#include <stdlib.h>

#include "xml_encoding.h"

/* The last one: what declares another encoding has been converted. */
#define PARSE_OPTIONS                                                                                                  \
    (XML_PARSE_HUGE | XML_PARSE_NOENT | XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |                    \
     XML_PARSE_IGNORE_ENC)

/* Nothing that a document names is fetched, from disk or from the net. */
static xmlParserInputPtr refuse_entity(const char *url, const char *id, xmlParserCtxtPtr context)
{
    (void)url;
    (void)id;
    (void)context;
    return NULL;
}

void xml_ready(void)
{
    xmlInitParser();
    xmlSetExternalEntityLoader(refuse_entity);
    xmlCatalogSetDefaults(XML_CATA_ALLOW_NONE); /* else a document could name a catalog file, and have it read */
}

/* In document order, without recursion: a document may be nested deeper than the stack. Entity references have been
 * replaced; the declarations of a DTD are not looked into. */
static uint64_t count_nodes(const xmlDoc *tree)
{
    uint64_t count = 0;
    const xmlNode *node = tree->children;
    while (node) {
        count++;
        if (node->children && node->type == XML_ELEMENT_NODE) {
            node = node->children;
            continue;
        }
        while (node && !node->next)
            node = node->parent != (const xmlNode *)tree ? node->parent : NULL;
        if (node)
            node = node->next;
    }
    return count;
}

/* libxml2 remembers a thread's last error, with its message, in a record that outlives this task. The message is the
 * task's, so it must not be remembered when the task has ended, whichever way. */
static void forget_last_error(void *unused)
{
    (void)unused;
    xmlResetLastError();
}

/* Later versions bound what entities grow to even with XML_PARSE_HUGE. */
static void lift_limits(xmlParserCtxtPtr context)
{
#if LIBXML_VERSION >= 21300
    xmlCtxtSetMaxAmplification(context, UINT_MAX);
#else
    (void)context;
#endif
}

static int parse_tree(parse_document *document, const char *text, size_t size)
{
    if (size > INT_MAX) {
        parse_explain(document, "too large for libxml2");
        return EFBIG;
    }
    xmlParserCtxtPtr context = xmlNewParserCtxt();
    if (!context) {
        parse_explain(document, "out of memory");
        return ENOMEM;
    }
    lift_limits(context);
    xmlDocPtr tree = xmlCtxtReadMemory(context, text, (int)size, NULL, NULL, PARSE_OPTIONS);
    int error = 0;
    if (tree) {
        document->items = count_nodes(tree);
        xmlFreeDoc(tree);
    } else {
        const xmlError *last = xmlCtxtGetLastError(context);
        error = last && last->code == XML_ERR_NO_MEMORY ? ENOMEM : EBADMSG;
        if (last)
            parse_explain(document, "line %d: %s", last->line, last->message ? last->message : "unknown error");
        else
            parse_explain(document, "no document");
    }
    xmlFreeParserCtxt(context);
    return error;
}

int xml_parse(parse_document *document, const char *text, size_t size)
{
    char *utf8;
    size_t utf8_size;
    int error = xml_to_utf8(document, text, size, &utf8, &utf8_size);
    if (error != 0)
        return error;
    stint_guard guard;
    stint_guard_push(&guard, forget_last_error, NULL);
    error = utf8 ? parse_tree(document, utf8, utf8_size) : parse_tree(document, text, size);
    stint_guard_pop(&guard, true);
    free(utf8);
    return error;
}
