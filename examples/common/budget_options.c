/* SPDX-License-Identifier: MIT
 *
 * The options that set a budget; see budget_options.h. */
#include "budget_options.h"

bool budget_options_read(int option, stint_budget *budget)
{
    if (option == BUDGET_OPTION_ALLOCATION)
        return arguments_size("--allocation", optarg, &budget->allocation);
    if (option == BUDGET_OPTION_MEMORY)
        return arguments_size("--memory", optarg, &budget->memory);
    return arguments_duration("--timeout", optarg, &budget->wall_ns);
}
