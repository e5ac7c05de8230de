/* SPDX-License-Identifier: MIT
 *
 * A program of a user: the library that it finds matches its headers, and meters its malloc. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

static int allocate_a_megabyte(void *arg, void **value)
{
    (void)arg;
    *value = malloc(1 << 20);
    return *value == NULL;
}

/* The part of the library that does it is found where the library is. */
static int writes_profiles(void)
{
    FILE *file = tmpfile();
    if (file == NULL || stint_profile_start(NULL) != 0)
        return 0;
    int error = stint_profile_write(fileno(file), STINT_PROFILE_PPROF);
    return stint_profile_stop() == 0 && (error == 0 || error == ENOTSUP);
}

int main(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome within, beyond;

    if (strcmp(stint_version(), STINT_VERSION) != 0 || !stint_malloc_is_overridden())
        return 1;
    options.budget.allocation = 2 << 20;
    if (stint_run(allocate_a_megabyte, NULL, &options, &within) != 0 || within.status != STINT_OK)
        return 2;
    options.budget.allocation = 1 << 19;
    if (stint_run(allocate_a_megabyte, NULL, &options, &beyond) != 0 ||
        beyond.reason != STINT_REASON_ALLOCATION_LIMIT || beyond.value != NULL)
        return 3;
    free(within.value);
    return writes_profiles() ? 0 : 4;
}
