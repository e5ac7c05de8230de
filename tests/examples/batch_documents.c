/* SPDX-License-Identifier: MIT
 *
 * What stint-batch lets documents do, and how it stops them. */
#include "batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Run one document, and return "outcome reason". */
static const char *result_in(const char *place, const char *options, const char *path)
{
    static char text[64];
    char line[256];
    snprintf(line, sizeof line, "\"$B\" %s %s --json report '%s'", place, options, path);
    int status = run(line);
    json_t *report = read_report("report");
    assert_int_equal(json_array_size(report), 2);
    snprintf(text, sizeof text, "%s %s", word(report, 0, "outcome"), word(report, 0, "reason"));
    assert_int_equal(status, strcmp(text, "ok none") == 0 ? 0 : 1);
    json_decref(report);
    return text;
}

/* The outcome is the same in place and behind the wall. */
static const char *result_of(const char *options, const char *path)
{
    char walled[64];
    strcpy(walled, result_in("", options, path));
    const char *in_place = result_in("--in-place", options, path);
    assert_string_equal(walled, in_place);
    return in_place;
}

TEST_IN_FOLDER(a_malformed_document_fails_with_its_librarys_words)
{
    static const struct {
        const char *path, *text, *words;
    } cases[] = {
        { "a.xml", "<a>\n&b;</a>", "line 2: Entity 'b' not defined" },
        { "b.json", "[1,\n}", "line 2: unexpected token" },
        { "c.sql", "SELECT 1;\nSELEKT 2;", "near \"SELEKT\": syntax error" },
        { "d.lua", "local a\nerror('bad')", "line:2: bad" },
        { "e.lua", "return +", "line:1: unexpected symbol" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        write_file(cases[i].path, cases[i].text);
    assert_int_equal(run("\"$B\" --json report ."), 1);
    json_t *report = read_report("report");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(word(report, i, "outcome"), "error");
        assert_string_equal(word(report, i, "reason"), "failed");
        if (!strstr(word(report, i, "detail"), cases[i].words))
            fail_msg("%s: %s", cases[i].path, word(report, i, "detail"));
    }
    assert_int_equal(summary(report, "error"), 5);
    json_decref(report);
    char *out = read_file("out");
    assert_non_null(strstr(out, "near \"SELEKT\""));
    free(out);
}

TEST_IN_FOLDER(each_limit_stops_each_kind_that_passes_it)
{
    write_many("a.json", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n", 1);
    assert_string_equal(result_of("--memory 1M", "a.json"), "ok none");
    assert_string_equal(result_of("--allocation 1k", "a.json"), "error allocation-limit");

    write_file("grow.lua", "local t = {} for i = 1, math.huge do t[i] = { i } end\n");
    assert_string_equal(result_of("--memory 8M", "grow.lua"), "error memory-limit");
    assert_string_equal(result_of("--memory 0 --allocation 8M", "grow.lua"), "error allocation-limit");
    write_file("loop.lua", "while true do end\n");
    assert_string_equal(result_of("--timeout 20ms", "loop.lua"), "error deadline");

    static const char counter[] = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)";
    char sql[256];
    snprintf(sql, sizeof sql, "%s SELECT n FROM c;", counter);
    write_file("loop.sql", sql);
    assert_string_equal(result_of("--timeout 20ms", "loop.sql"), "error deadline");
    snprintf(sql, sizeof sql, "CREATE TABLE t (x); INSERT INTO t %s SELECT printf('%%0999d', n) FROM c;", counter);
    write_file("grow.sql", sql);
    assert_string_equal(result_of("--memory 8M", "grow.sql"), "error memory-limit");
    assert_string_equal(result_of("--allocation 8M", "grow.sql"), "error allocation-limit");

    write_many("grow.xml", "<a>", 1000); /* libxml2 may have limits of its own to the depth */
    append_many("grow.xml", "<b/>", 200000);
    assert_string_equal(result_of("--memory 8M", "grow.xml"), "error memory-limit");
    assert_string_equal(result_of("--allocation 8M", "grow.xml"), "error allocation-limit");
}

TEST_IN_FOLDER(a_document_cannot_bring_in_another_file)
{
    write_many("large", "text and more text and still more text\n", 1000000);
    write_file("entity.xml", "<!DOCTYPE a [<!ENTITY e SYSTEM \"large\">]><a>&e;</a>");
    write_file("dtd.xml", "<!DOCTYPE a SYSTEM \"large\"><a/>");
    write_file("catalog.xml", "<?oasis-xml-catalog catalog=\"large\"?><a/>");
    assert_string_equal(result_of("--allocation 1M", "entity.xml"), "ok none");
    assert_string_equal(result_of("--allocation 1M", "dtd.xml"), "ok none");
    assert_string_equal(result_of("--allocation 1M", "catalog.xml"), "ok none");

    write_file("names.lua",
               "for _, name in ipairs { 'io', 'os', 'package', 'require', 'dofile', 'loadfile', 'debug' } do\n"
               "    assert(_G[name] == nil, name)\nend\n");
    assert_string_equal(result_of("", "names.lua"), "ok none");

    write_file("attach.sql", "ATTACH 'made.db' AS made; CREATE TABLE made.t (x);");
    write_file("into.sql", "CREATE TABLE t (x); VACUUM INTO 'made.db';");
    assert_string_equal(result_of("", "attach.sql"), "error failed");
    assert_string_equal(result_of("", "into.sql"), "error failed");
    assert_int_equal(access("made.db", F_OK), -1);
}

/* The result of one document: "outcome reason detail". */
static const char *told_in(const char *place, const char *path)
{
    static char text[256];
    char result[64];
    strcpy(result, result_in(place, "", path));
    json_t *report = read_report("report");
    snprintf(text, sizeof text, "%s %s", result, word(report, 0, "detail"));
    json_decref(report);
    return text;
}

static const char *told_of(const char *path)
{
    char walled[256];
    strcpy(walled, told_in("", path));
    const char *in_place = told_in("--in-place", path);
    assert_string_equal(walled, in_place);
    return in_place;
}

/* Its caller chooses the address of functions that SQLite will call, or learns where the library lies. */
TEST_IN_FOLDER(a_statement_cannot_choose_a_pointer)
{
    static const char *const places[] = { "", "--unbounded", "--in-place" };
    write_file("registers.sql", "SELECT fts3_tokenizer('e', x'4141414141414141');\n"
                                "CREATE VIRTUAL TABLE f USING fts3(x, tokenize = e);");
    write_file("tells.sql", "SELECT fts3_tokenizer('simple');");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_string_equal(told_in(places[i], "registers.sql"), "error failed not allowed: fts3_tokenizer");
        assert_string_equal(told_in(places[i], "tells.sql"), "error failed not allowed: fts3_tokenizer");
    }
}

TEST_IN_FOLDER(what_is_on_no_list_is_refused_to_sql)
{
    static const struct {
        const char *statement, *what;
    } cases[] = {
        { "SELECT load_extension('x')", "load_extension" },
        { "SELECT sqlite_log(1, 'x')", "sqlite_log" },
        { "CREATE TABLE t (x CHECK (sqlite_source_id() > x))", "sqlite_source_id" },
        { "CREATE VIRTUAL TABLE t USING fts3(x)", "fts3" },
        { "CREATE VIRTUAL TABLE t USING fts3tokenize", "fts3tokenize" },
        { "SELECT * FROM dbstat", "dbstat" },
        { "SELECT * FROM sqlite_stmt", "sqlite_stmt" },
        { "ATTACH ':memory:' AS b", ":memory:" },
        { "PRAGMA writable_schema = 1", "PRAGMA writable_schema" },
        { "PRAGMA trusted_schema = 1", "PRAGMA trusted_schema" },
        { "PRAGMA temp_store = FILE", "PRAGMA temp_store" },
        { "PRAGMA threads = 8", "PRAGMA threads" },
        { "PRAGMA mmap_size = 100000000", "PRAGMA mmap_size" },
        { "SELECT * FROM pragma_compile_options", "PRAGMA compile_options" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "error failed not allowed: %s", cases[i].what);
        write_file("a.sql", cases[i].statement);
        assert_string_equal(told_of("a.sql"), expected);
    }
    write_file("a.sql", "CREATE TABLE t (x); UPDATE sqlite_schema SET sql = 'x';");
    assert_string_equal(told_of("a.sql"), "error failed table sqlite_master may not be modified");
}

TEST_IN_FOLDER(what_schemas_are_made_of_is_allowed_to_sql)
{
    write_file("a.sql",
               "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = WAL; BEGIN;\n"
               "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT CHECK (length(a) < 9), b REFERENCES t (id));\n"
               "CREATE VIEW v AS SELECT upper(a) AS a FROM t; CREATE UNIQUE INDEX i ON t (a);\n"
               "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET b = NULL WHERE id = new.id; END;\n"
               "INSERT INTO t VALUES (1, 'x', NULL), (2, 'y', 1); COMMIT; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s;\n"
               "ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN z DEFAULT 3;\n"
               "ALTER TABLE u DROP COLUMN z; ANALYZE; REINDEX; PRAGMA integrity_check; PRAGMA user_version = 3;\n"
               "SELECT * FROM v, json_each('[1, 2]'), pragma_table_info('u') ORDER BY 1;\n"
               "SELECT rank() OVER (ORDER BY a), date('now'), json_object('a', 1) ->> 'a', sin(1) FROM u;\n"
               "CREATE TEMP TABLE x AS SELECT * FROM u; DROP TABLE x;\n"
               "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('hello world');\n"
               "SELECT snippet(f, 0, '', '', '', 3), bm25(f) FROM f('hello') ORDER BY rank; DELETE FROM f;\n"
               "CREATE VIRTUAL TABLE g USING fts4(x); INSERT INTO g VALUES ('hello world');\n"
               "SELECT offsets(g) FROM g WHERE g MATCH 'hello'; INSERT INTO g (g) VALUES ('optimize');\n"
               "CREATE VIRTUAL TABLE h USING rtree(id, x0, x1); INSERT INTO h VALUES (1, 2, 3); DELETE FROM h;\n"
               "DROP TABLE f; DROP TABLE g; DROP TABLE h; DROP VIEW v; DROP TRIGGER r; DROP TABLE u;\n");
    assert_string_equal(told_of("a.sql"), "ok none ");
}

/* One after the other in one process, on one thread: what the first has set would hold for the second. */
TEST_IN_FOLDER(nothing_of_one_document_is_seen_by_the_next)
{
    static const struct {
        const char *sets, *asks, *told;
    } cases[] = {
        { "PRAGMA temp_store_directory = '.'", "PRAGMA temp_store_directory", "PRAGMA temp_store_directory" },
        { "PRAGMA hard_heap_limit = 100000000", "SELECT * FROM pragma_hard_heap_limit", "PRAGMA hard_heap_limit" },
        { "PRAGMA soft_heap_limit = 100000000", "SELECT * FROM pragma_soft_heap_limit", "PRAGMA soft_heap_limit" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("a.sql", cases[i].sets);
        write_file("b.sql", cases[i].asks);
        assert_int_equal(run("\"$B\" --in-place -j1 --json report a.sql b.sql"), 1);
        json_t *report = read_report("report");
        char expected[64];
        snprintf(expected, sizeof expected, "not allowed: %s", cases[i].told);
        assert_string_equal(word(report, 0, "detail"), expected);
        assert_string_equal(word(report, 1, "detail"), expected);
        json_decref(report);
    }
}

/* More than a sorter keeps in memory if it has a choice. The kernel ends a process that writes to a file. */
TEST_IN_FOLDER(what_sql_sorts_is_memory_and_no_file)
{
    static const char counter[] = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 20000)";
    char sql[512];
    snprintf(sql, sizeof sql,
             "PRAGMA cache_size = 5; CREATE TEMP TABLE t AS %s SELECT randomblob(1000) AS x FROM c;"
             "SELECT x FROM t ORDER BY x; BEGIN; UPDATE t SET x = x || 1; ROLLBACK;",
             counter);
    write_file("a.sql", sql);
    assert_int_equal(run("ulimit -f 0; \"$B\" --in-place a.sql > /dev/null 2>&1"), 0);
    assert_string_equal(result_of("--memory 8M", "a.sql"), "error memory-limit");
    snprintf(sql, sizeof sql, "PRAGMA temp_store = FILE; %s SELECT randomblob(1000) FROM c ORDER BY 1;", counter);
    write_file("b.sql", sql);
    assert_int_equal(run("ulimit -f 0; \"$B\" --in-place b.sql > /dev/null 2>&1"), 1);
    assert_string_equal(told_of("b.sql"), "error failed not allowed: PRAGMA temp_store");
}

/* Nothing is asked over the network either: a listening server gets no connection. */
TEST_IN_FOLDER(a_document_makes_no_connection)
{
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    assert_int_equal(bind(listening, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listening, 8), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &length), 0);
    char url[64], text[512];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", ntohs(address.sin_port));
    snprintf(text, sizeof text,
             "<!DOCTYPE a SYSTEM \"%s\" [<!ENTITY e SYSTEM \"%s\"><!ENTITY %% p SYSTEM \"%s\"> %%p;]><a>&e;</a>", url,
             url, url);
    write_file("a.xml", text);
    snprintf(text, sizeof text,
             "<a xmlns:x=\"http://www.w3.org/2001/XInclude\" xmlns:s=\"http://www.w3.org/2001/XMLSchema-instance\" "
             "s:noNamespaceSchemaLocation=\"%s\"><x:include href=\"%s\"/></a>",
             url, url);
    write_file("b.xml", text);
    assert_string_equal(result_of("", "a.xml"), "ok none");
    assert_string_equal(result_of("", "b.xml"), "ok none");
    assert_int_equal(accept(listening, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    close(listening);
}

TEST_IN_FOLDER(json_has_a_depth)
{
    write_many("deep.json", "[", 2000);
    append_many("deep.json", "]", 2000);
    write_many("deeper.json", "[", 3000);
    append_many("deeper.json", "]", 3000);
    assert_string_equal(result_of("", "deep.json"), "ok none");
    assert_string_equal(told_of("deeper.json"), "error failed line 1: maximum parsing depth reached near '['");
}

/* Lua calls no hook in them. */
TEST_IN_FOLDER(what_lua_runs_when_it_clears_up_ends_at_its_deadline_too)
{
    write_file("a.lua", "setmetatable({}, { __gc = function() while true do end end })");
    write_file("b.lua", "local c <close> = setmetatable({}, { __close = function() while true do end end })");
    assert_string_equal(result_of("--timeout 50ms", "a.lua"), "error deadline");
    assert_string_equal(result_of("--timeout 50ms", "b.lua"), "error deadline");
}

TEST_IN_FOLDER(lua_loads_text_but_no_binary_code)
{
    write_file("text.lua",
               "assert(load('return ...')(7) == 7)\nassert(load('return x', 'name', 'bt', { x = 5 })() == 5)");
    write_file("binary.lua", "assert(load(string.dump(function() end)))");
    assert_string_equal(result_of("", "text.lua"), "ok none");
    assert_string_equal(result_of("", "binary.lua"), "error failed");
}

TEST_IN_FOLDER(an_encoding_is_honoured_if_libc_knows_it)
{
    write_file("latin.xml", "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><a>\xe4</a>");
    write_file("japanese.xml", "<?xml version='1.0' encoding='Shift_JIS'?><a>\x83\x65</a>");
    char kana[1000] = "<?xml version='1.0' encoding='Shift_JIS'?><a>"; /* a byte each here, three in UTF-8 */
    memset(kana + strlen(kana), '\xb1', 900);
    strcat(kana, "</a>");
    write_file("long.xml", kana);
    write_file("ebcdic.xml", "\x4c\x6f\xa7\x94\x93\x40\xa5\x85\x99\xa2\x89\x96\x95\x7e\x7f\xf1\x4b\xf0\x7f\x6f\x6e"
                             "\x4c\x81\x61\x6e");
    write_file("cut.xml", "<?xml version='1.0' encoding='Shift_JIS'?><a>\x83");
    write_file("none.xml", "<a>\xe4</a>");
    write_file("unknown.xml", "<?xml version=\"1.0\" encoding=\"ibm-37_P100-1995\"?><a/>");
    assert_string_equal(result_of("", "latin.xml"), "ok none");
    assert_string_equal(result_of("", "japanese.xml"), "ok none");
    assert_string_equal(result_of("", "long.xml"), "ok none");
    assert_string_equal(result_of("", "ebcdic.xml"), "ok none");
    assert_string_equal(result_of("", "cut.xml"), "error failed");
    assert_string_equal(result_of("", "none.xml"), "error failed");
    assert_string_equal(result_of("", "unknown.xml"), "error failed");
}

TEST_IN_FOLDER(a_task_stopped_while_it_reads_leaves_no_descriptor)
{
    write_many("large.json", "                                                               \n", 20000);
    assert_int_equal(run("ulimit -n 40; yes large.json | head -n 2000 | \"$B\" --in-place --memory 1M --json report -"),
                     1);
    json_t *report = read_report("report");
    assert_int_equal(json_array_size(report), 2001);
    for (size_t i = 0; i < 2000; i++)
        assert_string_equal(word(report, i, "reason"), "memory-limit");
    json_decref(report);
}

int main(int argc, char **argv)
{
    find_program(argc, argv);
    return run_all_tests(NULL, NULL);
}
