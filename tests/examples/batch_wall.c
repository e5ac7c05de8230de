/* SPDX-License-Identifier: MIT
 *
 * stint-batch behind its wall: documents in processes of their own, with every kind of crime. */
#include "batch.h"

#include <dirent.h>

/* "outcome reason detail" of a document in a report. */
static const char *came_of(json_t *report, size_t index)
{
    static char text[256];
    snprintf(text, sizeof text, "%s %s %s", word(report, index, "outcome"), word(report, index, "reason"),
             word(report, index, "detail"));
    return text;
}

/* Run the documents of the folder and read the report. */
static json_t *report_of(const char *options, int status)
{
    char line[256];
    snprintf(line, sizeof line, "\"$B\" --quiet --json report %s .", options);
    assert_int_equal(run(line), status);
    return read_report("report");
}

/* The number of items, by the summary line. */
static unsigned long items(void)
{
    unsigned long count = 0;
    char *out = read_file("out");
    assert_int_equal(sscanf(out, "%*d files: %*d ok, %*d error, %*d cancelled, %*d skipped; %lu items", &count), 1);
    free(out);
    return count;
}

static void write_good_documents(void)
{
    write_file("a.xml", "<a><b/>text</a>");
    write_file("b.xml",
               "<?xml version='1.0' encoding='Shift_JIS'?><a>\x83\x65</a>"); /* libc loads a converter for it */
    write_file("c.json", "[1, {\"a\": null}]");
    write_file("d.lua", "return 1, ('x'):rep(100000)");
    write_file("e.sql", "CREATE TABLE t (x); INSERT INTO t VALUES (random()); SELECT x FROM t;");
    write_file("f.expr", "((1 + 2) * (3 + -4))");
}

TEST_IN_FOLDER(documents_come_out_as_they_do_in_place)
{
    write_good_documents();
    write_file("g.json", "[1,\n}");
    write_file("h.xml", "<a>\n&b;</a>");
    json_t *in_place = report_of("--in-place", 1);
    unsigned long items_in_place = items();
    assert_true(items_in_place > 6);
    static const char *const walled[] = { "", "--reuse 1", "--reuse 3 -j1", "--reuse 1000000" };
    for (size_t i = 0; i < sizeof walled / sizeof *walled; i++) {
        json_t *report = report_of(walled[i], 1);
        assert_int_equal(json_array_size(report), 9);
        for (size_t n = 0; n < 8; n++) {
            char *expected = strdup(came_of(in_place, n));
            assert_string_equal(came_of(report, n), expected);
            free(expected);
            assert_true(json_integer_value(json_object_get(json_array_get(report, n), "allocated")) > 0);
        }
        assert_int_equal(summary(report, "ok"), 6);
        assert_int_equal(items(), items_in_place);
        json_decref(report);
    }
    json_decref(in_place);
}

TEST_IN_FOLDER(a_crime_ends_its_own_document_alone)
{
    static const struct {
        const char *name, *came;
    } crimes[] = {
        { "null", "error crash SIGSEGV at address 0x0 in write_to_null" },
        { "overrun", "error crash SIG" },
        { "abort", "error crash SIGABRT" },
        { "exit", "error exit exit status 3" },
        { "kill", "error killed SIGKILL" },
        { "loop", "error deadline " },
        { "sleep", "error deadline " },
        { "descriptors", "error failed " },
        { "threads", "error failed 0 threads, then: " },
        { "fork", "error failed 0 processes, then: " },
        { "open", "error failed 0 files, then: " },
        { "socket", "error failed 0 sockets, then: " },
        { "no such", "error failed its first line names no crime" },
    };
    size_t count = sizeof crimes / sizeof *crimes;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%02zu.bad", i);
        write_file(path, crimes[i].name);
        snprintf(path, sizeof path, "%02zu.json", i);
        write_file(path, "[1]");
    }
    static const char *const walled[] = { "--timeout 300ms", "--reuse 1 --timeout 300ms",
                                          "--reuse 1000 --timeout 300ms -j1" };
    for (size_t w = 0; w < sizeof walled / sizeof *walled; w++) {
        json_t *report = report_of(walled[w], 1);
        assert_int_equal(json_array_size(report), 2 * count + 1);
        for (size_t i = 0; i < count; i++) {
            const char *came = came_of(report, 2 * i);
            if (strncmp(came, crimes[i].came, strlen(crimes[i].came)) != 0)
                fail_msg("%s: %s", crimes[i].name, came);
            assert_string_equal(came_of(report, 2 * i + 1), "ok none ");
        }
        json_decref(report);
    }
}

TEST_IN_FOLDER(a_crime_is_refused_without_a_wall)
{
    write_file("a.bad", "null");
    static const char *const in_place[] = { "--in-place", "--unbounded" };
    for (size_t i = 0; i < 2; i++) {
        json_t *report = report_of(in_place[i], 1);
        assert_string_equal(word(report, 0, "reason"), "failed");
        assert_non_null(strstr(word(report, 0, "detail"), "behind a wall only"));
        json_decref(report);
    }
}

TEST_IN_FOLDER(a_report_says_where_it_crashed)
{
    write_file("a.bad", "null");
    assert_int_equal(mkdir("why", 0700), 0);
    assert_int_equal(run("\"$B\" --report why a.bad"), 1);
    char *out = read_file("out");
    assert_non_null(strstr(out, "\n    SIGSEGV at address 0x0 in write_to_null"));
    free(out);
    char *why = read_file("why/1-a.bad.txt");
    assert_non_null(strstr(why, "crash"));
    assert_non_null(strstr(why, "write_to_null"));
    free(why);
}

TEST_IN_FOLDER(each_limit_stops_it_behind_a_wall_too)
{
    write_file("a.lua", "local t = {} for i = 1, math.huge do t[i] = { i } end\n");
    write_file("b.lua", "while true do end\n");
    write_many("c.expr", "((((((((((((((((((((((((((((((((((((((((", 25000);
    write_file("d.sql", "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c;");
    json_t *report = report_of("--memory 16M --timeout 3s", 1);
    assert_string_equal(word(report, 0, "reason"), "memory-limit");
    assert_string_equal(word(report, 1, "reason"), "deadline");
    assert_string_equal(word(report, 2, "reason"), "crash"); /* the end of its stack is its child's */
    assert_string_equal(word(report, 3, "reason"), "deadline");
    json_decref(report);
    report = report_of("--memory 0 --allocation 16M --timeout 3s", 1);
    assert_string_equal(word(report, 0, "reason"), "allocation-limit");
    json_decref(report);
}

/* Newer libraries are done with these before the deadline: libxml2 2.15 parses the first, and SQLite refuses the
 * second. */
static bool newer_libraries_stop(json_t *report, size_t i)
{
    return (strcmp(word(report, i, "file"), "./attributes.xml") == 0 && strcmp(came_of(report, i), "ok none ") == 0) ||
           (strcmp(word(report, i, "file"), "./wide-field.sql") == 0 &&
            strcmp(word(report, i, "reason"), "failed") == 0);
}

/* Over each of them one call of its library sits for seconds. How late the deadline comes, scripts/demo prints. */
TEST_IN_FOLDER(a_deadline_holds_whatever_a_library_does)
{
    static const char *const kept[] = { "long-search.sql", "long-replace.sql", "snippet.sql", "wide-field.sql",
                                        "json-patch.sql" };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char from[512];
        snprintf(from, sizeof from, BOMBS "/%s", kept[i]);
        assert_int_equal(symlink(from, kept[i]), 0);
    }
    assert_int_equal(run("(printf '<a'; seq 1 100000 | sed 's/.*/ a&=\"\"/'; echo '/>') > attributes.xml"), 0);
    write_many("semicolons.sql", ";;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;", 1000000);
    write_many("blanks.json", "                                        ", 4000000);
    json_t *report = report_of("--timeout 200ms", 1);
    size_t count = json_array_size(report) - 1;
    assert_int_equal(count, sizeof kept / sizeof *kept + 3);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(came_of(report, i), "error deadline ") != 0 && !newer_libraries_stop(report, i))
            fail_msg("%s: %s", word(report, i, "file"), came_of(report, i));
        assert_true(json_integer_value(json_object_get(json_array_get(report, i), "wall_ns")) < 1000000000);
    }
    json_decref(report);
}

/* Each document that waits has its file open, and each child two descriptors. */
TEST_IN_FOLDER(a_long_list_needs_few_descriptors)
{
    write_file("a.json", "1");
    assert_int_equal(run("ulimit -n 400; yes a.json | head -n 3000 | \"$B\" --reuse 1000000 --json report -"), 0);
    json_t *report = read_report("report");
    assert_int_equal(summary(report, "ok"), 3000);
    json_decref(report);
}

TEST_IN_FOLDER(a_listed_file_that_cannot_be_read_is_an_error_of_its_own)
{
    write_file("a.json", "1");
    assert_int_equal(run("printf 'gone.json\\na.json\\n' | \"$B\" --json report -"), 1);
    json_t *report = read_report("report");
    assert_non_null(strstr(came_of(report, 0), "error failed cannot read it: No such file"));
    assert_string_equal(came_of(report, 1), "ok none ");
    json_decref(report);
}

/* Clock ticks of processor time of the wall's children, or -1: there are none. */
static long ticks_of_children(void)
{
    long sum = -1;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));) {
        char path[300], exe[4096] = "", name[32] = "";
        unsigned long ticks = 0;
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        if (readlink(path, exe, sizeof exe - 1) < 0 || strcmp(exe, program) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%*d (%31[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", name, &ticks) == 2 &&
            strcmp(name, "stint-child") == 0)
            sum = (sum < 0 ? 0 : sum) + (long)ticks;
        if (file)
            fclose(file);
    }
    closedir(processes);
    return sum;
}

TEST_IN_FOLDER(interrupt_kills_what_runs_and_reports_it)
{
    write_file("a.bad", "loop");
    write_file("b.json", "1");
    pid_t child = start(program, (const char *[]){ program, "-j1", "--timeout=0", "--json=report", ".", NULL });
    while (ticks_of_children() < 10)
        usleep(1000);
    kill(child, SIGINT);
    assert_int_equal(finish(child), 130);
    json_t *report = read_report("report");
    assert_string_equal(word(report, 0, "reason"), "token");
    assert_string_equal(word(report, 1, "reason"), "token");
    json_decref(report);
    assert_int_equal(ticks_of_children(), -1);
}

TESTS_NEED(lack_of_filters)

int main(int argc, char **argv)
{
    find_program(argc, argv);
    return run_all_tests(NULL, NULL);
}
