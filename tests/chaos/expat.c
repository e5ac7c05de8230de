/* SPDX-License-Identifier: MIT
 *
 * expat: a document in pieces; the handlers make a list of its elements. Keeps nothing outside of its parsers. */
#include "library.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCUMENT 12288
#define PIECE 700

static char documents[CHAOS_VARIANTS][DOCUMENT];

static void prepare(void)
{
    for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
        char *text = documents[variant];
        size_t length = (size_t)snprintf(text, DOCUMENT, "<!DOCTYPE r [<!ENTITY e 'entity %u'>]><r>", variant);
        for (unsigned i = 0; i < 80 + 10 * variant; i++)
            length += (size_t)snprintf(text + length, DOCUMENT - length,
                                       "<a%u b='%u' c='&lt;%u&gt;'>text &e; <d>%u</d></a%u>", i % 9, i, i, i, i % 9);
        snprintf(text + length, DOCUMENT - length, "</r>");
    }
}

/* With room to spare, so that a memory limit can lie anywhere in the run. */
struct element {
    const struct element *around;
    struct element *before; /* in the document; the list of all */
    char name[400];
};

struct reading {
    XML_Parser parser;
    const struct element *innermost;
    struct element *newest;
    uint64_t sum;
};

static void XMLCALL begin_element(void *data, const char *name, const char **attributes)
{
    struct reading *reading = data;
    struct element *element = malloc(sizeof *element);
    if (element == NULL) {
        XML_StopParser(reading->parser, XML_FALSE);
        return;
    }
    snprintf(element->name, sizeof element->name, "%s", name);
    element->around = reading->innermost;
    element->before = reading->newest;
    reading->innermost = reading->newest = element;
    for (; *attributes != NULL; attributes++)
        chaos_add_text(&reading->sum, *attributes);
}

static void XMLCALL end_element(void *data, const char *name)
{
    struct reading *reading = data;
    const struct element *ended = reading->innermost;
    if (ended == NULL)
        return;
    chaos_add_number(&reading->sum, (uint64_t)(strcmp(ended->name, name) == 0));
    reading->innermost = ended->around;
}

static void XMLCALL add_text(void *data, const char *text, int length)
{
    struct reading *reading = data;
    chaos_add(&reading->sum, text, (size_t)length);
}

static enum XML_Error parse(XML_Parser parser, const char *text)
{
    size_t length = strlen(text);
    for (size_t done = 0; done < length; done += PIECE) {
        size_t piece = length - done < PIECE ? length - done : PIECE;
        if (XML_Parse(parser, text + done, (int)piece, done + piece == length) != XML_STATUS_OK)
            return XML_GetErrorCode(parser);
    }
    return XML_ERROR_NONE;
}

static int run(unsigned variant, uint64_t *sum)
{
    struct reading reading = { .parser = XML_ParserCreate(NULL), .sum = *sum };
    if (reading.parser == NULL)
        return XML_ERROR_NO_MEMORY;
    XML_SetUserData(reading.parser, &reading);
    XML_SetElementHandler(reading.parser, begin_element, end_element);
    XML_SetCharacterDataHandler(reading.parser, add_text);
    enum XML_Error error = parse(reading.parser, documents[variant]);
    XML_ParserFree(reading.parser);
    while (reading.newest != NULL) {
        struct element *before = reading.newest->before;
        free(reading.newest);
        reading.newest = before;
    }
    *sum = reading.sum;
    return (int)error;
}

static const char *version(void)
{
    return XML_ExpatVersion();
}

const struct chaos_library chaos_expat = {
    .name = "expat",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libexpat",
    .version = version,
};
