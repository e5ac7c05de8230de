/* SPDX-License-Identifier: MIT
 *
 * For tests of reports: running a task for its report, and reading that by a real parser of JSON. */
#ifndef TESTS_REPORTS_H
#define TESTS_REPORTS_H

#include <jansson.h>
#include <sys/mman.h>

#include "pools.h"

/* A function that has a frame of its own. */
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif

/* So long that a machine under load finishes all that it has begun. */

/* Output of stint_report_write, ended by a zero; test_free frees it. */
static inline char *report_written(const stint_report *report, stint_report_kind kind)
{
    int file = memfd_create("report", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(stint_report_write(report, file, kind), 0);
    off_t size = lseek(file, 0, SEEK_END);
    char *text = test_calloc((size_t)size + 1, 1);
    assert_int_equal(pread(file, text, (size_t)size, 0), size);
    close(file);
    return text;
}

static inline json_t *report_read(const stint_report *report)
{
    char *text = report_written(report, STINT_REPORT_JSON);
    json_error_t error;
    json_t *read = json_loads(text, 0, &error);
    if (read == NULL)
        fail_msg("%s in %s", error.text, text);
    test_free(text);
    return read;
}

/* Run the task here; the report, to be released. */
static inline stint_report *report_of(stint_fn *fn, void *arg, const stint_options *options, stint_reason reason)
{
    stint_report *report = NULL;
    stint_outcome outcome;
    assert_int_equal(stint_run_reported(fn, arg, options, &outcome, &report), 0);
    assert_int_equal(outcome.reason, reason);
    assert_non_null(report);
    return report;
}

/* The same, read; to be given back by json_decref. */
static inline json_t *read_of(stint_fn *fn, void *arg, const stint_options *options, stint_reason reason)
{
    stint_report *report = report_of(fn, arg, options, reason);
    json_t *read = report_read(report);
    assert_string_equal(json_string_value(json_object_get(read, "reason")), stint_reason_name(reason));
    stint_report_release(report);
    return read;
}

static inline stint_options options_of(stint_report_level level, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.report = level;
    options.budget.memory = memory;
    return options;
}

/* By a path of keys, ended by NULL. */
#define json_at(root, ...) json_at_path(root, (const char *const[]){ __VA_ARGS__, NULL })
static inline json_t *json_at_path(json_t *at, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        at = json_object_get(at, *keys);
        if (at == NULL)
            fail_msg("there is no %s", *keys);
    }
    return at;
}

static inline uint64_t number_of(json_t *number)
{
    assert_true(json_is_integer(number));
    return (uint64_t)json_integer_value(number);
}

/* The name of the i-th frame's function, or "". */
static inline const char *function_at(json_t *frames, size_t i)
{
    const char *name = json_string_value(json_object_get(json_array_get(frames, i), "function"));
    return name != NULL ? name : "";
}

/* The place of a function in a callstack; the length: it is not there. */
static inline size_t place_of(json_t *frames, const char *function)
{
    size_t i = 0;
    while (i < json_array_size(frames) && strcmp(function_at(frames, i), function) != 0)
        i++;
    return i;
}

static inline bool is_in(json_t *frames, const char *function)
{
    return place_of(frames, function) < json_array_size(frames);
}

/* The rule that was waited for; NULL: none of that name. */
static inline json_t *wait_for_rule(json_t *report, const char *rule)
{
    json_t *waits = json_at(report, "where", "waited_for");
    size_t i;
    json_t *wait;
    json_array_foreach(waits, i, wait)
    {
        if (strcmp(json_string_value(json_object_get(wait, "rule")), rule) == 0)
            return wait;
    }
    return NULL;
}

/* Of blocks of so many bytes; NULL: none. */
static inline json_t *class_for(json_t *report, size_t size)
{
    json_t *classes = json_at(report, "what", "classes");
    size_t i;
    json_t *class;
    json_array_foreach(classes, i, class)
    {
        if (size > number_of(json_object_get(class, "above")) && size <= number_of(json_object_get(class, "size")))
            return class;
    }
    return NULL;
}

#endif
