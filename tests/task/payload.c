/* SPDX-License-Identifier: MIT
 *
 * What a task says about its error, what it asks about itself, and what happens to its memory if the result is not
 * wanted. */
#include "support.h"

static int fail_with_a_message(void *arg, void **value)
{
    char *message = stint_malloc(100);
    (void)value;
    snprintf(message, 100, "line %d: no such name", *(int *)arg);
    return stint_fail(EBADMSG, message, strlen(message) + 1);
}

TEST(a_payload_survives_the_rollback)
{
    int line = 7;
    stint_pool *pool;
    stint_future *future;
    stint_future *all;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    assert_int_equal(stint_submit(pool, fail_with_a_message, &line, NULL, &future), 0);
    assert_int_equal(stint_when_all(&future, 1, &all), 0);
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(i < 2 ? future : all, &outcome), 0);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EBADMSG);
        assert_int_equal(outcome.payload_size, sizeof "line 7: no such name");
        assert_string_equal(outcome.payload, "line 7: no such name");
        if (i == 1)
            stint_future_release(future); /* the compound keeps it */
    }
    stint_future_release(all);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_outcome outcome = run_task(fail_with_a_message, &line, NULL);
    assert_string_equal(outcome.payload, "line 7: no such name");
    stint_free((void *)(uintptr_t)outcome.payload);
}

enum ending {
    CHANGES_ITS_MIND,
    RETURNS_OK,
    PASSES_A_LIMIT,
    FAILS_TWICE,
    DROPS_IT,
    HAS_NOTHING,
    TAKES_TOO_MUCH,
    FAILS_INSIDE
};

static stint_outcome inner;

static int end_somehow(void *arg, void **value)
{
    static const char large[200];
    (void)value;
    switch (*(enum ending *)arg) {
    case CHANGES_ITS_MIND:
        stint_fail(1, "one", 4);
        return 2;
    case RETURNS_OK:
        stint_fail(1, "one", 4);
        return 0;
    case PASSES_A_LIMIT:
        stint_fail(1, "one", 4);
        keep(stint_malloc(1000));
        return 3;
    case FAILS_TWICE:
        stint_fail(1, "one", 4);
        return stint_fail(4, "three", 6);
    case DROPS_IT:
        stint_fail(1, "one", 4);
        return stint_fail(5, NULL, 0);
    case HAS_NOTHING:
        return stint_fail(6, NULL, 10);
    case TAKES_TOO_MUCH:
        return stint_fail(7, large, sizeof large);
    case FAILS_INSIDE:
        stint_run(end_somehow, &(enum ending){ FAILS_TWICE }, NULL, &inner);
        return inner.payload != NULL && strcmp(inner.payload, "three") == 0 ? stint_fail(8, "eight", 6) : 0;
    }
    return 0;
}

TEST(a_payload_belongs_to_the_error_that_the_function_returned)
{
    static const struct {
        int error;
        stint_reason reason;
        const char *payload;
    } wanted[] = {
        [CHANGES_ITS_MIND] = { 2, STINT_REASON_FAILED, "one" },
        [RETURNS_OK] = { 0, STINT_REASON_NONE, NULL },
        [PASSES_A_LIMIT] = { ENOMEM, STINT_REASON_ALLOCATION_LIMIT, NULL },
        [FAILS_TWICE] = { 4, STINT_REASON_FAILED, "three" },
        [DROPS_IT] = { 5, STINT_REASON_FAILED, NULL },
        [HAS_NOTHING] = { 6, STINT_REASON_FAILED, NULL },
        [TAKES_TOO_MUCH] = { ENOMEM, STINT_REASON_ALLOCATION_LIMIT, NULL },
        [FAILS_INSIDE] = { 8, STINT_REASON_FAILED, "eight" },
    };
    for (enum ending ending = CHANGES_ITS_MIND; ending <= FAILS_INSIDE; ending++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = 160;
        stint_outcome outcome = run_task(end_somehow, &ending, &options);
        assert_int_equal(outcome.reason, wanted[ending].reason);
        assert_int_equal(outcome.error, wanted[ending].error);
        if (wanted[ending].payload != NULL) {
            assert_string_equal(outcome.payload, wanted[ending].payload);
            assert_int_equal(outcome.payload_size, strlen(wanted[ending].payload) + 1);
        } else {
            assert_null(outcome.payload);
            assert_int_equal(outcome.payload_size, 0);
        }
        stint_free((void *)(uintptr_t)outcome.payload);
    }
    assert_int_equal(stint_fail(9, "outside", 8), 9);
}

/* --- Memory that nobody wants ------------------------------------------------------------------------------------- */

static int leave_much(void *arg, void **value)
{
    for (int i = 0; i < 100; i++)
        keep(memset(stint_malloc(1000), 1, 1000));
    *value = arg;
    return 0;
}

TEST(a_discarded_task_ends_ok_and_leaves_nothing)
{
    stint_options options = STINT_OPTIONS_INIT;
    int number = 0;
    options.discard = true;
    size_t before = 0;
    for (unsigned i = 0, count = 200 + repeats(1800); i < count; i++) {
        if (i == 200)
            before = resident();
        stint_outcome outcome = run_task(leave_much, &number, &options);
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, &number);
        assert_int_equal(outcome.usage.committed, 0);
        assert_true(outcome.usage.allocated >= 100000);
    }
    assert_in_range(resident(), 0, before + 10 * MIB); /* of 180 */
}

static int leave_some(void *size, void **value)
{
    for (int i = 0; i < 10; i++)
        stint_free(keep(stint_malloc(*(size_t *)size)));
    *value = stint_malloc(10000);
    return *value != NULL ? 0 : ENOMEM;
}

TEST(what_an_ok_commits_is_told)
{
    static size_t sizes[] = { 100, 5000, 60000, 200000 };
    stint_outcome outcome;
    for (size_t i = 0; i < 4; i++) {
        outcome = run_task(leave_some, &sizes[i], NULL);
        assert_ok(outcome);
        assert_true(outcome.usage.committed >= 10000);
        assert_true(outcome.usage.committed <= 20000 + (sizes[i] == 5000 ? 36 * KIB : 0));
        stint_free(outcome.value);
    }
    int code = 3;
    outcome = run_task(fail_with_a_message, &code, NULL);
    assert_int_equal(outcome.usage.committed, 0);
    stint_free((void *)(uintptr_t)outcome.payload);
}

/* --- Asking ------------------------------------------------------------------------------------------------------- */

struct asked {
    stint_usage usage[2];
    stint_budget left[3];
    int error;
};

static int ask_inside(void *arg, void **value)
{
    struct asked *asked = arg;
    (void)value;
    keep(stint_malloc(1000));
    return stint_usage_now(NULL, &asked->left[2]);
}

static int ask(void *arg, void **value)
{
    struct asked *asked = arg;
    (void)value;
    asked->error |= stint_usage_now(&asked->usage[0], NULL);
    asked->error |= stint_usage_now(NULL, &asked->left[0]);
    for (int i = 0; i < 10; i++)
        keep(memset(stint_malloc(10000), 1, 10000));
    asked->error |= stint_usage_now(&asked->usage[1], &asked->left[1]);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 5000;
    stint_outcome outcome;
    asked->error |= stint_run(ask_inside, asked, &options, &outcome);
    return asked->error | outcome.error;
}

TEST(a_task_can_ask_what_it_used_and_what_is_left)
{
    struct asked asked = { .error = 0 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 500000;
    options.budget.memory = 400000;
    options.budget.wall_ns = UINT64_C(1000000000000);
    assert_ok(run_task(ask, &asked, &options));
    assert_int_equal(asked.usage[0].allocated, 0);
    assert_int_equal(asked.left[0].allocation, 500000);
    assert_int_equal(asked.left[0].memory, 400000);
    assert_true(asked.left[0].wall_ns > 0 && asked.left[0].wall_ns <= options.budget.wall_ns);
    assert_true(asked.left[0].cpu_ns == UINT64_MAX);
    assert_int_equal(asked.usage[1].allocated, 100000);
    assert_true(asked.usage[1].peak >= 100000);
    assert_int_equal(asked.left[1].allocation, 400000);
    assert_true(asked.left[1].memory <= 300000 && asked.left[1].memory >= 200000);
    assert_true(asked.left[1].wall_ns <= asked.left[0].wall_ns);
    assert_int_equal(asked.left[2].allocation, 5000 - 1008);
    assert_true(asked.left[2].memory < asked.left[1].memory);
}

static int ask_without_limits(void *arg, void **value)
{
    struct asked *asked = arg;
    (void)value;
    asked->error = stint_usage_now(&asked->usage[0], &asked->left[0]);
    return 0;
}

TEST(without_limits_nothing_is_known_to_be_left)
{
    struct asked asked = { .error = 0 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = UINT64_MAX;
    assert_ok(run_task(ask_without_limits, &asked, &options));
    assert_int_equal(asked.error, 0);
    assert_true(asked.left[0].allocation == SIZE_MAX && asked.left[0].memory == SIZE_MAX &&
                asked.left[0].wall_ns == UINT64_MAX && asked.left[0].cpu_ns == UINT64_MAX);
    assert_int_equal(stint_usage_now(NULL, NULL), EINVAL);
    assert_int_equal(stint_usage_now(&asked.usage[0], NULL), ENOENT);
    assert_int_equal(stint_usage_now(NULL, &asked.left[0]), ENOENT);
}

TEST_MAIN()
