/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of stint-batch: each test runs the program, from outside, in an empty folder of its own. The
 * argument of every such test program is the path of stint-batch. */
#ifndef TESTS_BATCH_H
#define TESTS_BATCH_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lacks.h"
#include "test.h"
#include <jansson.h>
#include <stint/stint.h>

static const char *program;
static char folder[] = "/tmp/stint-batch-XXXXXX";

static inline int enter_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Text over and over. */
static inline void write_many_as(const char *mode, const char *path, const char *text, int times)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    for (int i = 0; i < times; i++)
        fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline void write_many(const char *path, const char *text, int times)
{
    write_many_as("w", path, text, times);
}

static inline void append_many(const char *path, const char *text, int times)
{
    write_many_as("a", path, text, times);
}

static inline char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = NULL;
    size_t size = 0;
    if (getdelim(&text, &size, 0, file) < 0)
        text = strdup("");
    fclose(file);
    assert_non_null(text);
    return text;
}

/* Start a program; its outputs go to the files out and err. */
static inline pid_t start(const char *path, const char *const arguments[])
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("out", "w", stdout) && freopen("err", "w", stderr))
            execv(path, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return child;
}

static inline int finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Run a line of the shell's, in which $B is the program. */
static inline int run(const char *line)
{
    return finish(start("/bin/sh", (const char *[]){ "sh", "-c", line, NULL }));
}

/* The JSON report in the file: an array of its lines, each of which must be an object. */
static inline json_t *read_report(const char *path)
{
    json_t *lines = json_array();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_true(json_is_object(object));
        json_array_append_new(lines, object);
    }
    free(line);
    fclose(file);
    return lines;
}

static inline const char *word(json_t *report, size_t index, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(report, index), key));
    assert_non_null(text);
    return text;
}

static inline long long summary(json_t *report, const char *key)
{
    json_t *last = json_array_get(report, json_array_size(report) - 1);
    json_t *number = json_object_get(json_object_get(last, "summary"), key);
    assert_true(json_is_integer(number));
    return json_integer_value(number);
}

#define TEST_IN_FOLDER(name) TEST_WITH(name, enter_folder, leave_folder)

/* Where no wall can be made, a script in its place tells it to do without. */
static char replacement[] = "/tmp/stint-batch-in-place-XXXXXX";

static inline void remove_script(void)
{
    unlink(replacement);
}

static inline void stay_in_place(void)
{
    int script = mkstemp(replacement);
    if (script < 0 || dprintf(script, "#!/bin/sh\nexec '%s' --in-place \"$@\"\n", program) < 0 ||
        fchmod(script, 0700) != 0 || close(script) != 0 || atexit(remove_script) != 0)
        abort();
    program = replacement;
}

/* Take the program's path from the test's own arguments. */
static inline void find_program(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s STINT-BATCH\n", argv[0]);
        exit(2);
    }
    program = realpath(argv[1], NULL); /* the tests change folders */
    const char *reason = lack_of_filters();
    if (reason != NULL) {
        print_message("not tested: %s; all is done in place\n", reason);
        stay_in_place();
    }
    setenv("B", program, 1);
}

#endif
