/* SPDX-License-Identifier: MIT
 *
 * The README's example: one task that would eat all memory, stopped at its own limit. */
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

static int grow(void *size, void **value) /* a list that never ends */
{
    for (void **node; (node = malloc(*(size_t *)size)) != NULL; *value = node)
        *node = *value;
    return -1;
}

int main(void)
{
    size_t size = 1000;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 << 20;
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    if (stint_pool_create(NULL, &pool) != 0 || stint_submit(pool, grow, &size, &options, &future) != 0)
        return 1;
    stint_future_wait(future, &outcome);
    printf("%s: %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    stint_future_release(future);
    return stint_pool_destroy(pool);
}
