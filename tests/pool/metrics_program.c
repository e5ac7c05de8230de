/* SPDX-License-Identifier: MIT
 *
 * metrics_program: writes the metrics of a process in which everything has happened that can be counted, under names
 * that are hard to write, for metrics_text.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stint/stint.h>

#define ACCOUNTS 300

static void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(1);
    }
}

static int allocate(void *arg, void **value)
{
    (void)value;
    for (int i = 0; i < 100; i++)
        stint_free(stint_malloc((size_t)(uintptr_t)arg));
    return 0;
}

static int allocate_masked(void *arg, void **value)
{
    stint_mask();
    allocate(arg, value);
    stint_unmask();
    return 0;
}

static int do_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static int fork_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_subtask part;
    stint_fork(&part, do_nothing, NULL);
    stint_join(&part, NULL);
    return EPROTO;
}

static void run_in(stint_pool *pool, stint_fn *fn, uintptr_t size, stint_account *account)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    options.account = account;
    stint_future *future;
    must(stint_submit(pool, fn, (void *)size, &options, &future));
    must(stint_future_wait(future, NULL));
    stint_future_release(future);
}

static void end_unstarted(stint_pool *pool, stint_account *account)
{
    stint_token *token;
    must(stint_token_create(NULL, &token));
    stint_options options = STINT_OPTIONS_INIT;
    options.token = token;
    options.account = account;
    stint_token_set(token);
    stint_future *future;
    must(stint_submit(pool, do_nothing, NULL, &options, &future));
    must(stint_future_wait(future, NULL));
    stint_future_release(future);
    stint_token_release(token);
}

int main(void)
{
    static const char *const names[] = {
        "plain", "plain", "a \"quoted\" \\ name\nof two lines", "sp\xc3\xa4t", "\xff\xc3(\xed\xa0\x80", ""
    };
    stint_pool *pools[sizeof names / sizeof *names + 1];
    size_t count = sizeof names / sizeof *names;
    for (size_t i = 0; i <= count; i++) {
        stint_pool_options options = STINT_POOL_OPTIONS_INIT;
        options.workers = 1;
        options.name = i < count ? names[i] : NULL;
        must(stint_pool_create(&options, &pools[i]));
        run_in(pools[i], allocate, 100, NULL);
        run_in(pools[i], allocate, 100000, NULL);
        run_in(pools[i], allocate_masked, 20000, NULL);
        run_in(pools[i], fork_and_fail, 0, NULL);
    }
    for (size_t i = 0; i < ACCOUNTS; i++) {
        char name[64];
        snprintf(name, sizeof name, "tenant %zu", i);
        const stint_account_limits limits = { .size = sizeof limits,
                                              .name = i < count    ? names[i]
                                                      : i == count ? NULL
                                                                   : name };
        stint_account *account;
        must(stint_account_create(NULL, &limits, &account));
        run_in(pools[i % (count + 1)], i % 3 == 0 ? allocate : fork_and_fail, 1000, account);
        if (i % 100 == 0)
            end_unstarted(pools[0], account);
        stint_account_release(account);
    }
    stint_outcome outcome;
    must(stint_run(allocate, (void *)1000, NULL, &outcome));
    must(stint_metrics_write(STDOUT_FILENO));
    for (size_t i = 0; i <= count; i++)
        must(stint_pool_destroy(pools[i]));
    return 0;
}
