/* SPDX-License-Identifier: MIT
 *
 * The same in C++: operator new is metered too. */
#include <stint/stint.h>

static int allocate_a_megabyte(void *, void **value)
{
    *value = new char[1 << 20];
    return 0;
}

int main()
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome within, beyond;

    options.budget.allocation = 2 << 20;
    if (stint_run(allocate_a_megabyte, nullptr, &options, &within) != 0 || within.status != STINT_OK)
        return 2;
    options.budget.allocation = 1 << 19;
    if (stint_run(allocate_a_megabyte, nullptr, &options, &beyond) != 0 ||
        beyond.reason != STINT_REASON_ALLOCATION_LIMIT || beyond.value != nullptr)
        return 3;
    delete[] static_cast<char *>(within.value);
    return 0;
}
