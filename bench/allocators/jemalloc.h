/* SPDX-License-Identifier: MIT
 *
 * What jemalloc's own tests of the allocation functions use of its test library, for bench/allocators/run. */
#ifndef JEMALLOC_TEST_H
#define JEMALLOC_TEST_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_failures;

#define TEST_BEGIN(name)                                                                                               \
    static void name(void)                                                                                             \
    {
#define TEST_END }
#define test_expect(holds, ...)                                                                                        \
    ((holds) ? (void)0                                                                                                 \
             : (test_failures++, fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #holds),                 \
                fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), (void)0))
#define test_fail(...) test_expect(false, __VA_ARGS__)
#define expect_false(what, ...) test_expect(!(what), __VA_ARGS__)
#define expect_true(what, ...) test_expect((what), __VA_ARGS__)
#define expect_d_eq(one, other, ...) test_expect((one) == (other), __VA_ARGS__)
#define expect_d_ne(one, other, ...) test_expect((one) != (other), __VA_ARGS__)
#define expect_zu_eq expect_d_eq
#define expect_u_eq expect_d_eq
#define expect_zu_ge(one, other, ...) test_expect((one) >= (other), __VA_ARGS__)
#define expect_ptr_null(what, ...) test_expect((what) == NULL, __VA_ARGS__)
#define expect_ptr_not_null(what, ...) test_expect((what) != NULL, __VA_ARGS__)
#define UNUSED __attribute__((unused))
#define ZU(number) ((size_t)number)
#define LG_SIZEOF_PTR 3
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN
#define BUFERROR_BUF 64
#define buferror(error, buffer, size) strerror_r(error, buffer, size)
#define get_errno() errno
#define set_errno(number) (errno = (number))
#define unlikely(what) (what)
#define likely(what) (what)
#define TEST_MALLOC_SIZE malloc_usable_size
#define mallctl(name, old, old_size, new, new_size) 0 /* what jemalloc alone has been asked to do is done */
#define test_no_reentrancy test

static UNUSED int run_tests(void (*const *tests)(void))
{
    for (; *tests != NULL; tests++)
        (*tests)();
    return test_failures != 0;
}

#define test(...) run_tests((void (*const[])(void)){ __VA_ARGS__, NULL })

#endif
