/* SPDX-License-Identifier: MIT
 *
 * The library's own records of a task are charged to it: tokens, accounts, futures, callbacks. */
#include <sched.h>
#include <stdatomic.h>

#include "support.h"

#define LIMIT MIB

static int make_tokens(void *arg, void **value)
{
    atomic_uint *made = arg;
    (void)value;
    for (int i = 0; i < 1000000; i++) {
        stint_token *token;
        if (stint_token_create(NULL, &token) != 0)
            return ENOMEM;
        atomic_fetch_add(made, 1);
        stint_token_release(token);
    }
    return 0;
}

static int make_accounts(void *arg, void **value)
{
    atomic_uint *made = arg;
    (void)value;
    for (int i = 0; i < 1000000; i++) {
        stint_account *account;
        if (stint_account_create(NULL, NULL, &account) != 0)
            return ENOMEM;
        atomic_fetch_add(made, 1);
        stint_account_release(account);
    }
    return 0;
}

static int make_contexts(void *arg, void **value)
{
    atomic_uint *made = arg;
    (void)value;
    for (int i = 0; i < 1000000; i++) {
        stint_context *context;
        if (stint_context_create(NULL, NULL, &context) != 0)
            return ENOMEM;
        atomic_fetch_add(made, 1);
        stint_context_release(context);
    }
    return 0;
}

static stint_pool *pool;

static int make_futures(void *arg, void **value)
{
    atomic_uint *made = arg;
    (void)value;
    for (int i = 0; i < 1000000; i++) {
        stint_future *future;
        int error = stint_submit(pool, do_nothing, NULL, NULL, &future);
        if (error == ENOMEM)
            return ENOMEM;
        if (error == EAGAIN) {
            sched_yield();
            continue;
        }
        atomic_fetch_add(made, 1);
        stint_future_release(future);
    }
    return 0;
}

static int make_compounds(void *arg, void **value)
{
    atomic_uint *made = arg;
    (void)value;
    for (int i = 0; i < 1000000; i++) {
        stint_future *all;
        if (stint_when_all(NULL, 0, &all) != 0)
            return ENOMEM;
        atomic_fetch_add(made, 1);
        stint_future_release(all);
    }
    return 0;
}

static stint_fn *const makers[] = { make_tokens, make_accounts, make_contexts, make_futures, make_compounds };
#define MAKERS (sizeof makers / sizeof *makers)

/* Tried as a task that is left at once, and as one that is refused. */
TEST(records_that_a_task_makes_count_to_its_allocation_limit)
{
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    for (size_t i = 0; i < MAKERS; i++) {
        for (int how = 0; how < 2; how++) {
            atomic_uint made = 0;
            stint_options options = STINT_OPTIONS_INIT;
            options.budget.allocation = LIMIT;
            options.on_interrupt = how == 0 ? STINT_JUMP : STINT_FAIL;
            options.grace = 1;
            stint_outcome outcome = run_task(makers[i], &made, &options);
            assert_limit_passed(outcome);
            assert_true(outcome.usage.allocated <= LIMIT);
            assert_true(outcome.usage.allocated > LIMIT - KIB);
            assert_true(atomic_load(&made) <= LIMIT / sizeof(void *));
            assert_true(atomic_load(&made) >= LIMIT / KIB / 2);
        }
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(records_that_a_task_makes_count_to_its_account)
{
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .allocation = LIMIT };
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    atomic_uint made = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_outcome outcome = run_task(make_tokens, &made, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.allocated, outcome.usage.allocated);
    stint_account_release(account);
}

static int make_and_fail(void *arg, void **value)
{
    stint_token **token = arg;
    (void)value;
    stint_token_create(NULL, token);
    return stint_token_retain(*token) != NULL ? 5 : 0;
}

/* It is not memory of the task's: others may have it. */
TEST(a_token_outlives_the_task_that_made_it_and_failed)
{
    stint_token *token = NULL;
    stint_outcome outcome = run_task(make_and_fail, &token, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, 5);
    stint_token_release(token); /* the one that it took for us */
    assert_false(stint_token_is_set(token));
    stint_token_set(token);
    assert_true(stint_token_is_set(token));
    stint_token_release(token); /* and its own */
}

static int make_exactly(void *arg, void **value)
{
    stint_token *tokens[10];
    (void)arg;
    (void)value;
    for (int i = 0; i < 10; i++)
        stint_token_create(NULL, &tokens[i]);
    for (int i = 0; i < 10; i++)
        stint_token_release(tokens[i]);
    return 0;
}

TEST(the_charge_of_a_record_is_the_same_each_time)
{
    stint_outcome first = run_task(make_exactly, NULL, NULL);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = first.usage.allocated;
    stint_outcome second = run_task(make_exactly, NULL, &options);
    assert_ok(second);
    assert_true(first.usage.allocated >= 10 * 2 * sizeof(void *));
    assert_int_equal(second.usage.allocated, first.usage.allocated);
    options.budget.allocation--;
    leaves_records(); /* the task is stopped with some in its hands */
    assert_limit_passed(run_task(make_exactly, NULL, &options));
}

TEST_MAIN()
