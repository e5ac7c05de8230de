/* SPDX-License-Identifier: MIT
 *
 * What stint-batch lets documents do, and what it stops them in. */
#include "batch.h"

/* Run one document, and say what came of it: "outcome reason". */
static const char *result_of(const char *options, const char *path)
{
    static char text[64];
    char line[256];
    snprintf(line, sizeof line, "\"$B\" %s --json report '%s'", options, path);
    int status = run(line);
    json_t *report = read_report("report");
    assert_int_equal(json_array_size(report), 2);
    snprintf(text, sizeof text, "%s %s", word(report, 0, "outcome"), word(report, 0, "reason"));
    assert_int_equal(status, strcmp(text, "ok none") == 0 ? 0 : 1);
    json_decref(report);
    return text;
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
    assert_int_equal(run("ulimit -n 40; yes large.json | head -n 2000 | \"$B\" --memory 1M --json report -"), 1);
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
