/* SPDX-License-Identifier: MIT
 *
 * TEST(name) { ... } is a test, which enters itself before main; TEST_MAIN() is the program that runs those of its
 * file, in the order in which they stand there. cmocka's part of a test, for C and C++. */
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
#ifdef __cplusplus
}
#endif

struct test_list {
    struct CMUnitTest tests[64];
    size_t count;
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

/* With what is done before it and after it, whatever becomes of it; NULL: nothing. Constructors run in the order of
 * their priorities, of which a program has those above 100. */
#define TEST_WITH(name, setup, teardown)                                                                               \
    static void name(void **);                                                                                         \
    __attribute__((constructor(101 + __LINE__))) static void add_##name(void)                                          \
    {                                                                                                                  \
        const struct CMUnitTest test = cmocka_unit_test_setup_teardown(name, setup, teardown);                         \
        add_test(test);                                                                                                \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Setup and teardown are of all of them together. The number of those that failed. */
static inline int run_all_tests(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return _cmocka_run_group_tests("tests", all_tests()->tests, all_tests()->count, setup, teardown);
}

#define TEST_MAIN_WITH(setup, teardown)                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return run_all_tests(setup, teardown);                                                                         \
    }

#define TEST_MAIN() TEST_MAIN_WITH(NULL, NULL)

#endif
