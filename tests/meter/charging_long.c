/* SPDX-License-Identifier: MIT
 *
 * A million random tasks are charged and stopped as the model of the rules says, to the byte. */
#include "charging.h"

TEST(very_many_random_tasks_end_as_the_model_says_to_the_byte)
{
    check_charged_tasks(1000000, repeats(1000000));
}

TEST_MAIN()
