/* SPDX-License-Identifier: MIT
 *
 * The options that set a budget; see budget_options.h. */
#include "budget_options.h"

#define USUAL_BACKSTOP ((size_t)4 << 30)
#define NO_BACKSTOP ((size_t)1 << 46)

bool budget_options_read(int option, stint_budget *budget)
{
    if (option == BUDGET_OPTION_ALLOCATION)
        return arguments_size("--allocation", optarg, &budget->allocation);
    if (option == BUDGET_OPTION_MEMORY)
        return arguments_size("--memory", optarg, &budget->memory);
    return arguments_duration("--timeout", optarg, &budget->wall_ns);
}

size_t budget_backstop(const stint_budget *budget)
{
    if (budget->memory == 0 || budget->memory > NO_BACKSTOP / 2)
        return NO_BACKSTOP;
    return 2 * budget->memory > USUAL_BACKSTOP ? 2 * budget->memory : USUAL_BACKSTOP;
}
