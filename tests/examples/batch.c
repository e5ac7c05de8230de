/* SPDX-License-Identifier: MIT
 *
 * stint-batch as its user meets it: arguments, paths, report, exit status, Ctrl-C. */
#include "batch.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

TEST_IN_FOLDER(every_file_of_a_folder_is_reported_in_sorted_order)
{
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("d/b", 0700), 0);
    write_file("d/c.xml", "<a/>");
    write_file("d/b/z.json", "[1]");
    write_file("d/b/a.sql", "SELECT 1;");
    write_file("d/a.lua", "return 1");
    write_file("d/ignored.txt", "text");
    write_file("d/ignored", "text");
    assert_int_equal(run("\"$B\" --json report d"), 0);

    json_t *report = read_report("report");
    static const char *const files[] = { "d/a.lua", "d/b/a.sql", "d/b/z.json", "d/c.xml" };
    static const char *const kinds[] = { "lua", "sql", "json", "xml" };
    assert_int_equal(json_array_size(report), 5);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(word(report, i, "file"), files[i]);
        assert_string_equal(word(report, i, "kind"), kinds[i]);
        assert_string_equal(word(report, i, "outcome"), "ok");
        assert_string_equal(word(report, i, "reason"), "none");
        assert_string_equal(word(report, i, "detail"), "");
        static const char *const numbers[] = { "error", "allocated", "peak", "wall_ns", "queued_ns" };
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
            assert_true(json_is_integer(json_object_get(json_array_get(report, i), numbers[n])));
        assert_true(json_integer_value(json_object_get(json_array_get(report, i), "allocated")) > 0);
    }
    assert_int_equal(summary(report, "files"), 4);
    assert_int_equal(summary(report, "ok"), 4);
    assert_int_equal(summary(report, "skipped"), 2);
    assert_true(summary(report, "max_rss") > 1 << 20);
    assert_true(summary(report, "wall_ns") > 0);
    json_decref(report);
}

TEST_IN_FOLDER(paths_come_from_standard_input_by_lines_or_zero_bytes)
{
    write_file("a.json", "1");
    write_file("two\nlines.json", "2");
    assert_int_equal(run("printf 'a.json\\na.json\\n' | \"$B\" --json report -"), 0);
    json_t *report = read_report("report");
    assert_int_equal(summary(report, "ok"), 2);
    json_decref(report);

    assert_int_equal(run("printf 'two\\nlines.json\\0a.json' | \"$B\" -0 --json report -"), 0);
    report = read_report("report");
    assert_string_equal(word(report, 0, "file"), "two\nlines.json");
    assert_string_equal(word(report, 1, "file"), "a.json");
    json_decref(report);
}

TEST_IN_FOLDER(a_listed_file_that_has_gone_is_an_error_of_its_own)
{
    write_file("a.json", "1");
    assert_int_equal(run("printf 'gone.json\\na.json\\n' | \"$B\" --json report -"), 1);
    json_t *report = read_report("report");
    assert_string_equal(word(report, 0, "reason"), "failed");
    assert_non_null(strstr(word(report, 0, "detail"), "No such file"));
    assert_string_equal(word(report, 1, "outcome"), "ok");
    json_decref(report);
}

/* Run a line of the shell as a user that may not look everywhere, even if the test is root. */
static int run_unprivileged(const char *line)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) || prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH)))
            _exit(126);
        if (freopen("out", "w", stdout) && freopen("err", "w", stderr))
            execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    return finish(child);
}

TEST_IN_FOLDER(a_folder_that_cannot_be_looked_into_is_a_line_and_all_else_is_parsed)
{
    static const char *const modes[] = { "", "--unbounded", "--in-place", "-0" };
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("d/closed", 0700), 0);
    assert_int_equal(mkdir("d/names", 0700), 0);
    write_file("d/a.json", "1");
    write_file("d/closed/b.json", "1");
    write_file("d/names/c.json", "1");
    write_file("d/z.json", "1");
    assert_int_equal(chmod("d/closed", 0), 0);
    assert_int_equal(chmod("d/names", 0400), 0); /* its contents can be listed, but not looked at */
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char line[128];
        snprintf(line, sizeof line, "printf 'd\\0' | \"$B\" %s --json report %s", modes[i],
                 strcmp(modes[i], "-0") == 0 ? "-" : "d");
        assert_int_equal(run_unprivileged(line), 1);
        json_t *report = read_report("report");
        static const char *const files[] = { "d/a.json", "d/closed", "d/names/c.json", "d/z.json" };
        assert_int_equal(json_array_size(report), 5);
        for (size_t n = 0; n < 4; n++) {
            bool bad = n == 1 || n == 2;
            assert_string_equal(word(report, n, "file"), files[n]);
            assert_string_equal(word(report, n, "kind"), bad ? "unknown" : "json");
            assert_string_equal(word(report, n, "reason"), bad ? "failed" : "none");
            assert_string_equal(word(report, n, "detail"), bad ? "cannot read it: Permission denied" : "");
        }
        assert_int_equal(summary(report, "ok"), 2);
        assert_int_equal(summary(report, "error"), 2);
        json_decref(report);
    }
    assert_int_equal(chmod("d/closed", 0700), 0);
    assert_int_equal(chmod("d/names", 0700), 0);
}

TEST_IN_FOLDER(a_listed_path_of_no_kind_that_has_gone_is_a_line)
{
    write_file("a.json", "1");
    assert_int_equal(run("printf 'gone\\na.json\\n' | \"$B\" --json report -"), 1);
    json_t *report = read_report("report");
    assert_string_equal(word(report, 0, "kind"), "unknown");
    assert_string_equal(word(report, 0, "detail"), "cannot read it: No such file or directory");
    assert_string_equal(word(report, 1, "outcome"), "ok");
    json_decref(report);
}

TEST_IN_FOLDER(a_list_longer_than_the_window_is_reported_whole_and_in_order)
{
    write_file("a.json", "1");
    write_file("b.json", "2");
    static const char *const modes[] = { "", "--in-place", "--unbounded" };
    for (size_t i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, "yes 'a.json\nb.json' | head -n 20001 | \"$B\" %s --json report -", modes[i]);
        assert_int_equal(run(line), 0);
        json_t *report = read_report("report");
        assert_int_equal(json_array_size(report), 20002);
        for (size_t n = 0; n < 20001; n++)
            assert_string_equal(word(report, n, "file"), n % 2 ? "b.json" : "a.json");
        assert_int_equal(summary(report, "ok"), 20001);
        json_decref(report);
    }
}

TEST_IN_FOLDER(an_unusable_argument_is_named_in_one_line)
{
    static const struct {
        const char *arguments, *named;
    } cases[] = {
        { "", "PATH" },
        { "--no-such x", "--no-such" },
        { "-x x", "-x" },
        { "--memory", "--memory" },
        { "--memory 12Q .", "12Q" },
        { "--memory -1 .", "-1" },
        { "--allocation 99999999T .", "99999999T" },
        { "--allocation '' .", "--allocation" },
        { "--timeout 5 .", "'5'" },
        { "--timeout s .", "'s'" },
        { "-j 0 .", "-j" },
        { "-j 1x .", "1x" },
        { "--quiet=3 .", "--quiet" },
        { "-0 .", "-0" },
        { "no/such/path", "no/such/path" },
        { "--json no/such/file .", "no/such/file" },
        { "--reuse 2 --unbounded .", "--unbounded" },
        { "--reuse 2 --in-place .", "--in-place" },
        { "--reuse 0 .", "--reuse" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "\"$B\" %s", cases[i].arguments);
        assert_int_equal(run(line), 2);
        char *out = read_file("out");
        char *err = read_file("err");
        assert_string_equal(out, "");
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
        assert_memory_equal(err, "stint-batch: ", 13);
        if (!strstr(err + 13, cases[i].named))
            fail_msg("%s: %s", cases[i].arguments, err);
        free(out);
        free(err);
    }
}

TEST_IN_FOLDER(help_and_version_are_printed_on_request)
{
    assert_int_equal(run("\"$B\" --help"), 0);
    char *out = read_file("out");
    assert_memory_equal(out, "Usage: stint-batch", 18);
    free(out);
    assert_int_equal(run("\"$B\" --version"), 0);
    out = read_file("out");
    assert_string_equal(out, "stint-batch " STINT_VERSION "\n");
    free(out);
}

TEST_IN_FOLDER(standard_output_carries_the_report_alone)
{
    write_file("a.lua", "print('printed')\nwarn('@on')\nwarn('warned')");
    write_file("b.json", "broken");
    assert_int_equal(run("\"$B\" --json - a.lua b.json"), 1);
    json_t *report = read_report("out");
    assert_int_equal(json_array_size(report), 3);
    json_decref(report);
    char *err = read_file("err");
    assert_non_null(strstr(err, "b.json"));
    assert_non_null(strstr(err, "2 files: 1 ok, 1 error, 0 cancelled, 0 skipped"));
    assert_null(strstr(err, "printed"));
    assert_null(strstr(err, "warned"));
    free(err);

    assert_int_equal(run("\"$B\" --quiet a.lua b.json"), 1);
    char *out = read_file("out");
    assert_memory_equal(out, "2 files: ", 9);
    free(out);
}

TEST_IN_FOLDER(a_name_that_is_no_text_still_gives_valid_json)
{
    write_file("\xff\x1b[2J\xc3\xa9.json", "x");
    assert_int_equal(run("\"$B\" --json report ."), 1);
    json_t *report = read_report("report");
    assert_string_equal(word(report, 0, "file"), "./\xef\xbf\xbd\x1b[2J\xc3\xa9.json");
    json_decref(report);
    char *out = read_file("out");
    assert_null(strchr(out, '\x1b'));
    free(out);
}

TEST_IN_FOLDER(unbounded_does_the_same_work_without_limits)
{
    write_file("a.json", "[1, 2]");
    write_file("b.json", "[1, 2");
    write_many("c.xml", "<!---->", 100000);
    write_file("d.xml", "<a/>");
    assert_int_equal(
        run("cat c.xml d.xml > e.xml; \"$B\" --unbounded --memory 1 --allocation 1 --timeout 1us --json report "
            "a.json b.json e.xml"),
        1);
    json_t *report = read_report("report");
    assert_string_equal(word(report, 0, "outcome"), "ok");
    assert_string_equal(word(report, 1, "reason"), "failed");
    assert_string_equal(word(report, 2, "outcome"), "ok");
    json_decref(report);
}

/* Until it has used 200 ms of its processor: then a document runs that does not end. */
static void wait_until_busy(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    unsigned long ticks = 0;
    while (ticks * 5 < (unsigned long)sysconf(_SC_CLK_TCK)) {
        usleep(1000);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &ticks), 1);
        fclose(file);
    }
}

/* Until the signal that was sent is with the handler: a second one would be lost in the first. */
static void wait_until_taken(pid_t process)
{
    while (has_signal_in(process, "ShdPnd", SIGINT))
        usleep(1000);
}

/* SQLite compares a megabyte at each of ten million places, for longer than any test waits: without an allocation, and
 * without a step of its machine. */
static void write_what_cannot_be_stopped(const char *path)
{
    write_file(path, "SELECT instr(hex(zeroblob(5000000)), hex(zeroblob(500000)) || 'x');");
}

TEST_IN_FOLDER(interrupt_cancels_what_is_left_and_reports_it)
{
    write_file("a.lua", "while true do end\n");
    write_file("b.sql", "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c;");
    write_file("c.json", "1");
    pid_t child =
        start(program, (const char *[]){ program, "--in-place", "-j1", "--timeout=0", "--json=report", ".", NULL });
    wait_until_busy(child);
    kill(child, SIGINT);
    assert_int_equal(finish(child), 130);
    json_t *report = read_report("report");
    assert_int_equal(json_array_size(report), 4);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(word(report, i, "outcome"), "cancelled");
        assert_string_equal(word(report, i, "reason"), "token");
    }
    assert_true(json_integer_value(json_object_get(json_array_get(report, 0), "allocated")) > 0);     /* it ran */
    assert_int_equal(json_integer_value(json_object_get(json_array_get(report, 2), "allocated")), 0); /* never began */
    assert_int_equal(summary(report, "cancelled"), 3);
    json_decref(report);
    char *out = read_file("out");
    assert_non_null(strstr(out, "3 files: 0 ok, 0 error, 3 cancelled"));
    free(out);
}

#define LEFT "it cannot be stopped in place: it ran until this program ended"

TEST_IN_FOLDER(interrupt_names_what_cannot_be_stopped_and_does_not_wait_for_it)
{
    static const char *const modes[] = { "--in-place", "--unbounded" };
    write_file("a.json", "1");
    write_what_cannot_be_stopped("b.sql");
    write_file("c.json", "1");
    for (size_t i = 0; i < 2; i++) {
        pid_t child =
            start(program, (const char *[]){ program, "-j1", "--timeout=0", modes[i], "--json=report", ".", NULL });
        wait_until_busy(child);
        kill(child, SIGINT);
        assert_int_equal(finish(child), 130);
        json_t *report = read_report("report");
        assert_int_equal(json_array_size(report), 4);
        assert_string_equal(word(report, 0, "outcome"), "ok");
        assert_string_equal(word(report, 1, "reason"), "token");
        assert_string_equal(word(report, 1, "detail"), LEFT);
        assert_string_equal(word(report, 2, "reason"), "token");
        assert_string_equal(word(report, 2, "detail"), "");
        assert_int_equal(summary(report, "ok"), 1);
        assert_int_equal(summary(report, "cancelled"), 2);
        json_decref(report);
    }
}

/* Whatever it is doing: starting, making a wall, running. */
TEST_IN_FOLDER(many_interrupts_leave_a_whole_report)
{
    static const char *const modes[] = { "--quiet", "--in-place", "--unbounded" };
    const char *lack = lack_of_told_handlers();
    if (lack != NULL)
        print_message("not tested: interrupts as it starts: %s\n", lack);
    write_what_cannot_be_stopped("a.sql");
    write_file("b.lua", "while true do end\n");
    for (size_t i = 0; i < 9; i++) {
        pid_t child = start(program, (const char *[]){ program, "--timeout=0", modes[i % 3], "--json=report", "a.sql",
                                                       "b.lua", "a.sql", "b.lua", NULL });
        if (lack == NULL) {
            while (!has_signal_in(child, "SigCgt", SIGINT))
                sched_yield();
        } else {
            wait_until_busy(child);
        }
        for (unsigned n = 0; n < 12; n++) {
            kill(child, SIGINT);
            usleep((unsigned)i * 2000);
        }
        assert_int_equal(finish(child), 130);
        json_t *report = read_report("report");
        assert_int_equal(json_array_size(report), 5);
        assert_int_equal(summary(report, "cancelled"), 4);
        json_decref(report);
    }
}

TEST_IN_FOLDER(interrupt_ends_a_list_that_nobody_ends)
{
    int list[2];
    write_file("a.json", "1");
    assert_int_equal(pipe2(list, O_CLOEXEC), 0);
    int input = dup(STDIN_FILENO);
    assert_int_equal(dup2(list[0], STDIN_FILENO), STDIN_FILENO);
    pid_t child = start(program, (const char *[]){ program, "--json=report", "-", NULL });
    dup2(input, STDIN_FILENO);
    assert_int_equal(write(list[1], "a.json\n", 7), 7);
    for (int left = 7; left > 0; usleep(1000))
        assert_int_equal(ioctl(list[0], FIONREAD, &left), 0);
    kill(child, SIGINT);
    assert_int_equal(finish(child), 130);
    json_t *report = read_report("report");
    assert_int_equal(summary(report, "cancelled"), json_array_size(report) - 1);
    json_decref(report);
    close(input);
    close(list[0]);
    close(list[1]);
}

/* Its report waits for a reader that does not read. */
TEST_IN_FOLDER(interrupts_go_on_until_they_end_it_without_a_report)
{
    write_file("a.lua", "while true do end\n");
    assert_int_equal(mkfifo("report", 0600), 0);
    int reader = open("report", O_RDWR | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_true(fcntl(reader, F_SETPIPE_SZ, 4096) > 0);
    assert_int_equal(run("yes a.lua | head -n 1000 > list"), 0);
    int input = dup(STDIN_FILENO);
    int list = open("list", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(list, STDIN_FILENO), STDIN_FILENO);
    pid_t child = start(program, (const char *[]){ program, "--in-place", "--timeout=0", "--json=report", "-", NULL });
    dup2(input, STDIN_FILENO);
    wait_until_busy(child);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        kill(child, SIGINT);
        wait_until_taken(child);
        usleep(10000);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    char *out = read_file("out");
    assert_string_equal(out, "");
    free(out);
    close(input);
    close(list);
    close(reader);
}

int main(int argc, char **argv)
{
    find_program(argc, argv);
    return run_all_tests(NULL, NULL);
}
