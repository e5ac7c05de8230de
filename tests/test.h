/* SPDX-License-Identifier: MIT
 *
 * TEST(name) { ... } is a test, which enters itself before main; TEST_MAIN() is the program that runs the tests of its
 * file, in the order of the file. This is cmocka's part of a test, for C and C++. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>

#include "live/live.h"
#ifdef __cplusplus
}
#endif

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct test_list {
    struct CMUnitTest tests[64];
    size_t count;
    const struct CMUnitTest *current; /* as it was entered */
    uint64_t live;                    /* live_number at its beginning */
    const char *(*lack)(void);        /* what says why none can be run here; NULL: nothing may */
};

static inline struct test_list *all_tests(void)
{
    static struct test_list all;
    return &all;
}

static inline void add_test(struct CMUnitTest test)
{
    struct test_list *all = all_tests();
    if (all->count == sizeof all->tests / sizeof all->tests[0])
        abort();
    all->tests[all->count++] = test;
}

/* --- A test that hangs says so and ends the program, when the seconds in STINT_TESTS_LIMIT are over; without that it
 * may take any time. A signal that nobody else here has, on the first thread. --- */

#define LIMIT_SIGNAL (SIGRTMAX - 3)

static inline void say_of_limit(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static inline void end_hanging_test(int signal)
{
    (void)signal;
    say_of_limit("[  FAILED  ] ");
    say_of_limit(all_tests()->current->name);
    say_of_limit(": it hangs\n");
    _exit(1);
}

/* 0: no limit any more. */
static inline void limit_time(long seconds)
{
    static timer_t timer;
    static int made;
    struct itimerspec limit;
    memset(&limit, 0, sizeof limit);
    limit.it_value.tv_sec = seconds;
    if (!made && seconds > 0) {
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = LIMIT_SIGNAL;
        signal(LIMIT_SIGNAL, end_hanging_test);
        made = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    if (made)
        timer_settime(timer, 0, &limit, NULL);
}

static inline long limit_of_time(void)
{
    const char *seconds = getenv("STINT_TESTS_LIMIT");
    return seconds != NULL ? atol(seconds) : 0;
}

/* Ends a test that has nothing to test here, and says why: scripts/test counts these lines. */
#define skip_because(reason)                                                                                           \
    do {                                                                                                               \
        print_message("not tested: %s\n", reason);                                                                     \
        skip();                                                                                                        \
    } while (0)

/* --- No test leaves a record of the library's behind: what it has made has gone when it ends, or soon after, where
 * other threads are about to let go of it. A test that is to leave some says so by leaves_records(). --- */

#define LIVE_PATIENCE 10 /* seconds */

static inline void leaves_records(void)
{
    all_tests()->live = UINT64_MAX;
}

static inline int begin_counted(void **state)
{
    struct test_list *all = all_tests();
    const char *debug = getenv("STINT_DEBUG"); /* then records of heaps that were rolled back stay for a while */
    bool counts = live_number != NULL && (debug == NULL || strcmp(debug, "1") != 0);
    all->current = (const struct CMUnitTest *)*state;
    *state = NULL;
    all->live = counts ? live_number() : UINT64_MAX;
    limit_time(limit_of_time());
    return all->current->setup_func != NULL ? all->current->setup_func(state) : 0;
}

static inline long seconds_since_start(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* the time of day may be set */
    return (long)now.tv_sec;
}

/* -1: some are left, even after a while. */
static inline int await_records(uint64_t since)
{
    static long patience = LIVE_PATIENCE;
    struct timespec nap = { 0, 1000000 };
    long begun = seconds_since_start();
    while (live_since(since) > 0) {
        if (seconds_since_start() > begun + patience) {
            patience = 0; /* the next test that leaves some is not the only one */
            live_tell(since);
            return -1;
        }
        nanosleep(&nap, NULL);
        nap.tv_nsec += nap.tv_nsec < 50000000 ? nap.tv_nsec / 2 : 0;
    }
    return 0;
}

static inline int end_counted(void **state)
{
    struct test_list *all = all_tests();
    int error = all->current->teardown_func != NULL ? all->current->teardown_func(state) : 0;
    if (all->live != UINT64_MAX && await_records(all->live) != 0)
        error = -1;
    limit_time(0);
    return error;
}

static inline void count_records(struct test_list *all)
{
    struct CMUnitTest *entered = (struct CMUnitTest *)malloc(sizeof all->tests);
    if (entered == NULL)
        abort();
    memcpy(entered, all->tests, sizeof all->tests);
    for (size_t i = 0; i < all->count; i++) {
        all->tests[i].setup_func = begin_counted;
        all->tests[i].teardown_func = end_counted;
        all->tests[i].initial_state = &entered[i];
    }
}

/* --- A test that needs what the system does not have says so. --- */

/* All tests of the file need it: says() tells what the system does not have, NULL for nothing (lacks.h). */
#define TESTS_NEED(says)                                                                                               \
    __attribute__((constructor)) static void note_##says(void)                                                         \
    {                                                                                                                  \
        all_tests()->lack = says;                                                                                      \
    }

#define SKIPPED 77 /* Meson's status of what is skipped */

static inline int skip_all_tests(const char *reason)
{
    const struct test_list *all = all_tests();
    print_message("not tested: %s\n", reason);
    for (size_t i = 0; i < all->count; i++)
        print_message("[  SKIPPED ] %s\n", all->tests[i].name);
    return SKIPPED;
}

/* With a setup and a teardown that always runs; NULL: none. Constructors run in the order of their priorities; a
 * program may use those above 100. */
#define TEST_WITH(name, setup, teardown)                                                                               \
    static void name(void **);                                                                                         \
    __attribute__((constructor(101 + __LINE__))) static void add_##name(void)                                          \
    {                                                                                                                  \
        const struct CMUnitTest test = cmocka_unit_test_setup_teardown(name, setup, teardown);                         \
        add_test(test);                                                                                                \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Setup and teardown are of all of them together. The number of those that failed, or SKIPPED. */
static inline int run_all_tests(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct test_list *all = all_tests();
    const char *reason = all->lack != NULL ? all->lack() : NULL;
    if (reason != NULL)
        return skip_all_tests(reason);
    count_records(all);
    return _cmocka_run_group_tests("tests", all->tests, all->count, setup, teardown);
}

#define TEST_MAIN_WITH(setup, teardown)                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return run_all_tests(setup, teardown);                                                                         \
    }

#define TEST_MAIN() TEST_MAIN_WITH(NULL, NULL)

#endif
