/* SPDX-License-Identifier: MIT
 *
 * Recursions that call libc at each level, and whose stack ends there: the task ends with an Error all the same. */
#include "support.h"

#include <fnmatch.h>
#include <search.h>
#include <stdarg.h>
#include <wchar.h>

static volatile bool never;
static volatile long sink;
static char text[1000];
static int numbers[] = { 4, 3, 2, 1 };
static const char *volatile number = "12.5e3";

static int compare(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static int compare_with(const void *left, const void *right, void *unused)
{
    (void)unused;
    return compare(left, right);
}

static void print_list(size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (size == 0)
        vsprintf(text, format, list);
    else
        vsnprintf(text, size, format, list);
    va_end(list);
}

static void call_qsort(int n)
{
    numbers[0] = n;
    qsort(numbers, 4, sizeof *numbers, compare);
}

static void call_qsort_r(int n)
{
    numbers[0] = n;
    qsort_r(numbers, 4, sizeof *numbers, compare_with, NULL);
}

static void call_bsearch(int n)
{
    sink += bsearch(&n, numbers, 4, sizeof *numbers, compare) != NULL;
}

static void call_lfind(int n)
{
    size_t count = 4;
    sink += lfind(&n, numbers, &count, sizeof *numbers, compare) != NULL;
}

static void call_lsearch(int n)
{
    size_t count = 3;
    sink += lsearch(&n, numbers, &count, sizeof *numbers, compare) != NULL;
}

static void *tree;

static void call_tfind(int n)
{
    sink += tfind(&n, &tree, compare) != NULL;
}

static void see_node(const void *node, VISIT which, int depth)
{
    (void)node;
    (void)which;
    sink += depth;
}

static void call_twalk(int n)
{
    sink += n;
    twalk(tree, see_node);
}

#define CALLING(name, ...)                                                                                             \
    static void call_##name(int n)                                                                                     \
    {                                                                                                                  \
        sink += n;                                                                                                     \
        __VA_ARGS__;                                                                                                   \
    }
CALLING(sprintf, sprintf(text, "%d %f", n, n / 3.0))
CALLING(snprintf, snprintf(text, sizeof text, "%d %f", n, n / 3.0))
CALLING(vsprintf, print_list(0, "%d %f", n, n / 3.0))
CALLING(vsnprintf, print_list(sizeof text, "%d %f", n, n / 3.0))
CALLING(strtod, sink += (long)strtod(number, NULL))
CALLING(strtof, sink += (long)strtof(number, NULL))
CALLING(strtold, sink += (long)strtold(number, NULL))
CALLING(strtol, sink += strtol(number, NULL, 10))
CALLING(strtoul, sink += (long)strtoul(number, NULL, 10))
CALLING(strtoll, sink += (long)strtoll(number, NULL, 10))
CALLING(strtoull, sink += (long)strtoull(number, NULL, 10))
CALLING(atof, sink += (long)atof(number))
CALLING(atoi, sink += atoi(number))
CALLING(atol, sink += atol(number))
CALLING(fnmatch, sink += fnmatch("*[a-z]?.c", number, 0))

struct callee {
    const char *name;
    void (*call)(int);
};

#define CALLEE(name)                                                                                                   \
    {                                                                                                                  \
#name, call_##name                                                                                             \
    }
static const struct callee simple[] = {
    CALLEE(qsort),  CALLEE(qsort_r), CALLEE(bsearch),  CALLEE(lfind),    CALLEE(lsearch),   CALLEE(tfind),
    CALLEE(twalk),  CALLEE(sprintf), CALLEE(snprintf), CALLEE(vsprintf), CALLEE(vsnprintf), CALLEE(strtod),
    CALLEE(strtof), CALLEE(strtold), CALLEE(strtol),   CALLEE(strtoul),  CALLEE(strtoll),   CALLEE(strtoull),
    CALLEE(atof),   CALLEE(atoi),    CALLEE(atol),     CALLEE(fnmatch),
};
#define SIMPLE (sizeof simple / sizeof *simple)

static __attribute__((noinline)) int recurse(const struct callee *callee, volatile int depth)
{
    if (callee != NULL)
        callee->call(depth);
    return never ? depth : recurse(callee, depth + 1) + depth;
}

static int recurse_for_ever(void *callee, void **value)
{
    (void)value;
    return recurse(callee, 0) > 0 ? EIO : EINVAL;
}

static void assert_stack(const char *name, const stint_outcome *outcome)
{
    if (outcome->reason != STINT_REASON_STACK || outcome->status != STINT_ERROR)
        fprintf(stderr, "%s: %s, %s\n", name, stint_status_name(outcome->status), stint_reason_name(outcome->reason));
    assert_int_equal(outcome->status, STINT_ERROR);
    assert_int_equal(outcome->reason, STINT_REASON_STACK);
    assert_int_equal(outcome->error, ENOMEM);
}

/* In all ways to be interrupted. */
static void run_callees(const struct callee *callees, size_t count)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    for (size_t i = 0; i < 3 * count; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = ways[i % 3];
        struct callee callee = callees[i / 3];
        stint_outcome outcome = run_task(recurse_for_ever, &callee, &options);
        assert_stack(callee.name, &outcome);
    }
}

static void run_on_thread(void *(*function)(void *))
{
    pthread_t thread;
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, MIB), 0);
    assert_int_equal(pthread_create(&thread, &attributes, function, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static void *run_simple(void *unused)
{
    run_callees(simple, SIMPLE);
    return unused;
}

static int keys[] = { 5, 2, 8 };

static void make_tree(void)
{
    for (size_t i = 0; tree == NULL || i < 3; i++)
        assert_non_null(tsearch(&keys[i], &tree, compare));
}

TEST(a_recursion_through_any_function_that_holds_nothing_ends)
{
    make_tree();
    run_on_thread(run_simple);
}

TEST_MAIN()
