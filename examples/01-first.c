/* SPDX-License-Identifier: MIT
 *
 * One task that would eat all memory is stopped at its own limit. It prints:
 *
 *     error: memory-limit */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

static int grow(void *arg, void **value) /* a list that never ends */
{
    (void)arg;
    for (;;) {
        void **node = malloc(1000);
        if (node == NULL)
            return ENOMEM;
        *node = *value;
        *value = node;
    }
}

int main(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 << 20;
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    int error = stint_pool_create(NULL, &pool);
    if (error == 0)
        error = stint_submit(pool, grow, NULL, &options, &future);
    if (error == 0)
        error = stint_future_wait(future, &outcome);
    if (error != 0) {
        fprintf(stderr, "stint: %s\n", strerror(error));
        return 1;
    }
    printf("%s: %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    stint_future_release(future);
    return stint_pool_destroy(pool);
}
