/* SPDX-License-Identifier: MIT
 *
 * XML, by libxml2. It needs no teaching: whatever takes it long also allocates, and an allocation is a sample point.
 * Its own limits are off (XML_PARSE_HUGE), and entities are replaced, so that only the budget holds. */
#include "library.h"

#include <errno.h>
#include <iconv.h>
#include <libxml/catalog.h>
#include <libxml/encoding.h>
#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The last one: what declares its encoding has been looked at here. */
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

/* The encoding that the document's first line declares, if it is not the one that needs no word: else "". */
static void declared_encoding(const char *text, char encoding[64])
{
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)sizeof line - 1, text);
    char *end = strstr(line, "?>");
    const char *at = end && strncmp(line, "<?xml", 5) == 0 ? strstr(line, "encoding") : NULL;
    if (!at || at > end || sscanf(at, "encoding%*[ =\t\r\n]%*[\"']%63[A-Za-z0-9._-]", encoding) != 1 ||
        strcasecmp(encoding, "UTF-8") == 0)
        encoding[0] = 0;
}

/* Whether libc's iconv knows it. What iconv does not know libxml2 may ask ICU for, and ICU keeps the converters it has
 * made: made inside a task, they would be gone with it. So such a document is refused. */
static bool iconv_knows(const char *encoding)
{
    iconv_t to = iconv_open("UTF-8", encoding);
    if (to == (iconv_t)-1)
        return false;
    iconv_close(to);
    iconv_t from = iconv_open(encoding, "UTF-8");
    if (from == (iconv_t)-1)
        return false;
    iconv_close(from);
    return true;
}

/* A document in a rare encoding makes libxml2 open iconv converters. Those are libc's, not the task's: a rollback would
 * leave them behind, 30 KB or more each. */
static void close_converters(void *argument)
{
    const xmlParserCtxt *context = argument;
    for (int i = 0; i < context->inputNr; i++) {
        const xmlParserInput *input = context->inputTab[i];
        if (input->buf && input->buf->encoder)
            xmlCharEncCloseFunc(input->buf->encoder);
    }
}

/* libxml2 remembers a thread's last error, with its message, in a record that outlives this task. The message is the
 * task's, so it must not be remembered when the task has ended, whichever way. */
static void forget_last_error(void *unused)
{
    (void)unused;
    xmlResetLastError();
}

static int parse_tree(parse_document *document, const char *text, size_t size)
{
    if (size > INT_MAX) {
        parse_explain(document, "too large for libxml2");
        return EFBIG;
    }
    char encoding[64];
    declared_encoding(text, encoding);
    if (encoding[0] && !iconv_knows(encoding)) {
        parse_explain(document, "unknown encoding %s", encoding);
        return EBADMSG;
    }
    xmlParserCtxtPtr context = xmlNewParserCtxt();
    if (!context) {
        parse_explain(document, "out of memory");
        return ENOMEM;
    }
    stint_guard guard;
    stint_guard_push(&guard, close_converters, context);
    xmlDocPtr tree = xmlCtxtReadMemory(context, text, (int)size, NULL, encoding[0] ? encoding : NULL, PARSE_OPTIONS);
    stint_guard_pop(&guard, false);
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
    stint_guard guard;
    stint_guard_push(&guard, forget_last_error, NULL);
    int error = parse_tree(document, text, size);
    stint_guard_pop(&guard, true);
    return error;
}
