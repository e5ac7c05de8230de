/* SPDX-License-Identifier: MIT
 *
 * Tasks of one tenant share an account: a tenant who takes too much loses its own tasks, and no other's. It prints:
 *
 *     greedy: error, account
 *     modest: ok, none */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

static int allocate(void *arg, void **value)
{
    for (size_t left = *(size_t *)arg; left > 0; left -= 1000) {
        void **block = (void **)malloc(1000);
        if (block == NULL)
            return ENOMEM;
        *block = *value;
        *value = block;
    }
    *value = NULL; /* nothing is handed out: options.discard */
    return 0;
}

static stint_future *submit(stint_pool *pool, stint_account *account, size_t *bytes)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future = NULL;
    options.account = account;
    options.discard = true;
    stint_submit(pool, allocate, bytes, &options, &future);
    return future;
}

int main(void)
{
    const char *names[] = { "greedy", "modest" };
    size_t bytes[] = { 100000000, 1000000 };
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    stint_account *accounts[2];
    stint_future *futures[2];
    stint_outcome outcome;
    stint_pool *pool;
    limits.memory = 16 << 20;
    if (stint_pool_create(NULL, &pool) != 0)
        return 1;
    for (int i = 0; i < 2; i++)
        futures[i] =
            stint_account_create(NULL, &limits, &accounts[i]) == 0 ? submit(pool, accounts[i], &bytes[i]) : NULL;
    for (int i = 0; i < 2; i++) {
        if (stint_future_wait(futures[i], &outcome) != 0)
            return 1;
        printf("%s: %s, %s\n", names[i], stint_status_name(outcome.status), stint_reason_name(outcome.reason));
        stint_future_release(futures[i]);
        stint_account_release(accounts[i]);
    }
    return stint_pool_destroy(pool);
}
