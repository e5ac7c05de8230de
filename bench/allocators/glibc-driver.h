/* SPDX-License-Identifier: MIT
 *
 * The main function of glibc's tests, which include it as <support/test-driver.c> behind all else: see glibc.h. */
#include "glibc.h"

int support_failures;
bool test_verbose;

#ifndef TEST_FUNCTION
#define TEST_FUNCTION do_test()
#define SUPPORT_CALL do_test()
#else
#define SUPPORT_CALL SUPPORT_CALL_OF(TEST_FUNCTION)
#define SUPPORT_CALL_OF(function) SUPPORT_RUN(function)
#define SUPPORT_RUN(function) function()
#endif

int main(void)
{
#ifdef EXPECTED_SIGNAL
    printf("a signal is expected: %d\n", EXPECTED_SIGNAL);
#endif
    int status = SUPPORT_CALL;
    return status != 0 ? status : support_failures != 0;
}
