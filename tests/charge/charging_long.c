/* SPDX-License-Identifier: MIT
 *
 * A million random tasks are charged and stopped as the model of the rules says, to the byte. */
#include "charging.h"

static void test_a_million_random_tasks_end_as_the_model_says_to_the_byte(void **state)
{
    (void)state;
    check_charged_tasks(1000000, 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_random_tasks_end_as_the_model_says_to_the_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
