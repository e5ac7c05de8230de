/* SPDX-License-Identifier: MIT
 *
 * Some work of SQLite, libxml2, Lua and jansson, as programs use them: 3 to 30 milliseconds each. A measurement that
 * does not come to the right result fails. */
#include <jansson.h>
#include <lauxlib.h>
#include <libxml/parser.h>
#include <lualib.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "serve.h"
#include "work.h"

static size_t timed(int (*work)(void), double *figures)
{
    double begin = bench_thread_ns();
    int good = work();
    figures[0] = (bench_thread_ns() - begin) / 1e6;
    return good ? 1 : 0;
}

#define ROWS 4000

static int insert_rows(sqlite3 *database)
{
    sqlite3_stmt *insert;
    if (sqlite3_prepare_v2(database, "INSERT INTO visit(name, page, size) VALUES(?, ?, ?)", -1, &insert, NULL) != 0)
        return 0;
    int good = 1;
    for (int i = 0; i < ROWS; i++) {
        char name[32];
        char page[64];
        snprintf(name, sizeof name, "visitor %d", i * 7919 % 1000);
        snprintf(page, sizeof page, "/some/page/of/many/%d/index.html", i % 177);
        sqlite3_bind_text(insert, 1, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(insert, 2, page, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(insert, 3, i * 31 % 5000);
        good &= sqlite3_step(insert) == SQLITE_DONE;
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    return good;
}

static int count_rows(void *counted, int columns, char **values, char **names)
{
    (void)columns;
    (void)values;
    (void)names;
    ++*(int *)counted;
    return 0;
}

static int use_sqlite(void)
{
    sqlite3 *database;
    int rows = 0;
    int good = sqlite3_open(":memory:", &database) == SQLITE_OK &&
               sqlite3_exec(database,
                            "CREATE TABLE visit(id INTEGER PRIMARY KEY, name TEXT, page TEXT, size INTEGER);"
                            "CREATE INDEX by_name ON visit(name); BEGIN",
                            NULL, NULL, NULL) == SQLITE_OK &&
               insert_rows(database) &&
               sqlite3_exec(database,
                            "COMMIT;"
                            "SELECT name, count(*), sum(size), group_concat(page) FROM visit GROUP BY name ORDER BY 3;"
                            "SELECT upper(a.page), b.name FROM visit a JOIN visit b USING(name) WHERE a.id % 16 = 0;",
                            count_rows, &rows, NULL) == SQLITE_OK;
    sqlite3_close(database);
    return good && rows == 1000 + ROWS / 16 * (ROWS / 1000);
}

size_t work_sqlite(double *figures)
{
    return timed(use_sqlite, figures);
}

#define RECORDS 2000
#define DOCUMENT_MAX ((size_t)1 << 19)

static char *xml_document;
static char *json_document;

/* record is a format for a number, three times. */
static char *make_document(const char *head, const char *record, const char *tail)
{
    char *document = malloc(DOCUMENT_MAX);
    if (document == NULL)
        exit(1);
    char *end = document + sprintf(document, "%s", head);
    for (int i = 0; i < RECORDS; i++)
        end += snprintf(end, (size_t)(document + DOCUMENT_MAX - end), record, i, i * 17 % 1000, i * 31 % 77);
    strcpy(end, tail);
    return document;
}

void work_app_prepare(unsigned workers)
{
    (void)workers;
    xmlInitParser();
    xml_document = make_document("<shop>",
                                 "<book id='b%d' price='%d'><title>A title &amp; a subtitle</title><author>Somebody"
                                 "</author><text>Words, <b>more</b> words and <i>yet %d</i> words.</text></book>\n",
                                 "</shop>");
    json_document = make_document("[",
                                  "{\"id\": %d, \"price\": %d.5, \"name\": \"A name of some length\", \"tags\": "
                                  "[\"one\", \"two\", \"%d\"], \"in\": {\"stock\": true, \"shop\": null}},\n",
                                  "{}]");
}

static int use_xml(void)
{
    int books = 0;
    int length = 0;
    xmlChar *text = NULL;
    xmlDoc *tree = xmlReadMemory(xml_document, (int)strlen(xml_document), NULL, NULL, 0);
    if (tree == NULL)
        return 0;
    for (xmlNode *node = xmlDocGetRootElement(tree)->children; node != NULL; node = node->next) {
        xmlChar *content = xmlNodeGetContent(node);
        books += node->type == XML_ELEMENT_NODE && content != NULL;
        xmlFree(content);
    }
    xmlDocDumpMemory(tree, &text, &length);
    xmlFree(text);
    xmlFreeDoc(tree);
    return books == RECORDS && (size_t)length > strlen(xml_document);
}

size_t work_xml(double *figures)
{
    return timed(use_xml, figures);
}

static int use_lua(void)
{
    static const char program[] =
        "local words, by_word = {}, {}\n"
        "for i = 1, 12000 do\n"
        "  local word = 'word ' .. i * 7919 % 5003\n"
        "  words[#words + 1] = word\n"
        "  by_word[word] = { count = (by_word[word] and by_word[word].count or 0) + 1, at = i }\n"
        "end\n"
        "table.sort(words)\n"
        "local text = table.concat(words, ' '):gsub('%d+', function(n) return '<' .. n .. '>' end)\n"
        "local sum = 0\n"
        "for word, entry in pairs(by_word) do sum = sum + entry.count end\n"
        "return sum, #text\n";
    lua_State *lua = luaL_newstate();
    if (lua == NULL)
        return 0;
    luaL_openlibs(lua);
    int good = luaL_dostring(lua, program) == LUA_OK && lua_tointeger(lua, -2) == 12000;
    lua_close(lua);
    return good;
}

size_t work_lua(double *figures)
{
    return timed(use_lua, figures);
}

static int use_json(void)
{
    json_t *tree = json_loads(json_document, 0, NULL);
    char *text = json_dumps(tree, JSON_COMPACT | JSON_SORT_KEYS);
    int good = json_array_size(tree) == RECORDS + 1 && text != NULL && strlen(text) > (size_t)RECORDS * 50;
    free(text);
    json_decref(tree);
    return good;
}

size_t work_json(double *figures)
{
    return timed(use_json, figures);
}

#define PAUSE_US 40000

static long faults_so_far(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_minflt;
}

size_t work_faults(bench_measure_fn *work, double *figures)
{
    usleep(PAUSE_US);
    long before = faults_so_far();
    size_t count = work(figures);
    figures[0] = (double)(faults_so_far() - before);
    return count;
}

size_t work_sqlite_faults(double *figures)
{
    return work_faults(work_sqlite, figures);
}
