/* SPDX-License-Identifier: MIT
 *
 * The task of these programs: get a document, hand it to its library. Runs on any thread, inside a scope or without
 * one, and in the children of a wall. */
#include "contents.h"
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct kind {
    const char *name;
    stint_on_interrupt on_interrupt;
    bool preemptible;
    void (*ready)(void);
    int (*parse)(parse_document *document, const char *text, size_t size);
    const char *sample; /* NULL: none is of use */
} kinds[] = {
    [PARSE_XML] = { "xml", STINT_JUMP, false, xml_ready, xml_parse,
                    "<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE a [<!ENTITY b 'c'>]><a d='e'>&b;</a>" },
    [PARSE_JSON] = { "json", STINT_JUMP, false, json_ready, json_parse, "{\"a\": [1, 2.5, null]}" },
    /* SQLite holds its connection's mutex through every call, so a jump would leave it locked. It handles allocations
     * that fail very well: so that is how it is stopped. */
    [PARSE_SQL] = { "sql", STINT_FAIL, false, sql_ready, sql_parse,
                    "CREATE TABLE a (b); INSERT INTO a VALUES (1); SELECT sum(b) FROM a;" },
    /* Lua keeps nothing outside its states and takes no lock, so it may be left at any instruction: its functions that
     * are written in C can run for ever without an allocation and without the hook. */
    [PARSE_LUA] = { "lua", STINT_JUMP, true, NULL, lua_parse, "return ('a'):rep(2), { 1 }" },
    [PARSE_EXPR] = { "expr", STINT_JUMP, true, NULL, expr_parse, "1 + 2" },
    [PARSE_BAD] = { "bad", STINT_JUMP, false, NULL, bad_parse, NULL },
};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* What a library makes once and keeps (tables, locks, seeds) must not be made inside a task: if that task is rolled
 * back, its memory goes, and the library's pointers to it stay. So each library is readied before the first task. */
void parse_ready_libraries(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].ready)
            kinds[i].ready();
    }
}

bool parse_kind_named(const char *name, parse_kind *kind)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcasecmp(name, kinds[i].name) == 0) {
            *kind = (parse_kind)i;
            return true;
        }
    }
    return false;
}

bool parse_kind_of(const char *path, parse_kind *kind)
{
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name ? name + 1 : path, '.');
    return dot && parse_kind_named(dot + 1, kind);
}

const char *parse_kind_name(parse_kind kind)
{
    return kind == PARSE_UNKNOWN ? "unknown" : kinds[kind].name;
}

stint_options parse_options(parse_kind kind)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = kinds[kind].on_interrupt;
    options.preemptible = kinds[kind].preemptible;
    return options;
}

void parse_explain(parse_document *document, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(document->detail, sizeof document->detail, format, arguments);
    va_end(arguments);
    for (char *c = document->detail; *c; c++) {
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    }
    for (size_t end = strlen(document->detail); end && document->detail[end - 1] == ' '; end--)
        document->detail[end - 1] = 0;
}

int parse_unread(parse_document *document, int error)
{
    parse_explain(document, "cannot read it: %s", strerror(error));
    return error;
}

static void close_descriptor(void *descriptor)
{
    close(*(int *)descriptor);
}

/* The block is the task's, and charged to it: a file that is larger than the budget ends there. The descriptor is no
 * memory, so a rollback would not close it: from its opening to its closing a guard stands by. An interrupt of a
 * preemptible task could come between open and the push, but for the mask. */
static int read_file(const char *path, char **text, size_t *size)
{
    stint_guard guard;
    stint_mask();
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = descriptor < 0 ? errno : 0;
    if (error == 0)
        stint_guard_push(&guard, close_descriptor, &descriptor);
    stint_unmask();
    if (error)
        return error;
    error = contents_read(descriptor, SIZE_MAX, text, size);
    stint_guard_pop(&guard, true);
    return error;
}

/* A block of the task's own, as for a file: a text that was sent costs what a file of its size costs. */
static int copy_text(const parse_document *document, char **text, size_t *size)
{
    char *block = malloc(document->size + 1);
    if (!block)
        return ENOMEM;
    memcpy(block, document->text, document->size);
    block[document->size] = 0;
    *text = block;
    *size = document->size;
    return 0;
}

/* What could be got of it; the text is the task's, and goes. */
static int parse_text(parse_document *document, int error, char *text, size_t size)
{
    if (error)
        return parse_unread(document, error);
    error = kinds[document->kind].parse(document, text, size);
    free(text); /* on Ok it would stay allocated, and nobody would own it */
    return error;
}

int parse_document_run(void *argument, void **value)
{
    (void)value; /* all that is wanted of it goes into the record */
    parse_document *document = argument;
    char *text = NULL;
    size_t size = 0;
    if (document->kind == PARSE_BAD) {
        parse_explain(document, "it is parsed behind a wall only, not in place");
        return EPERM;
    }
    int error = document->text ? copy_text(document, &text, &size) : read_file(document->path, &text, &size);
    return parse_text(document, error, text, size);
}

int parse_document_behind_wall(parse_document *document, int descriptor)
{
    char *text = NULL;
    size_t size = 0;
    int error = contents_read(descriptor, SIZE_MAX, &text, &size);
    return parse_text(document, error, text, size);
}

void parse_warm_up(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        parse_document document = { .kind = (parse_kind)i };
        if (kinds[i].sample)
            kinds[i].parse(&document, kinds[i].sample, strlen(kinds[i].sample));
    }
}
