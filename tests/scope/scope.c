/* SPDX-License-Identifier: MIT
 *
 * stint_run: its arguments, its results, what it refuses, and what it measures. */
#include "support.h"

static int leave_value(void *arg, void **value)
{
    char *copy = stint_strdup(arg);
    *value = copy;
    return copy == NULL;
}

TEST(an_ok_task_gives_its_value_to_the_caller)
{
    char text[] = "a value";
    stint_outcome outcome = run_task(leave_value, text, NULL);
    assert_ok(outcome);
    assert_string_equal(outcome.value, "a value");
    stint_free(outcome.value);
}

static int fail_with_value(void *arg, void **value)
{
    *value = arg;
    return 71;
}

TEST(a_nonzero_return_is_an_error_with_that_code_and_no_value)
{
    char text[] = "lost";
    stint_outcome outcome = run_task(fail_with_value, text, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, 71);
}

static void assert_nothing_left_of(const stint_outcome *outcome, char old)
{
    assert_null(memchr(outcome->message, old, sizeof outcome->message));
}

/* Where a copy is kept, an old pointer in it would be a root of the heap that it once pointed into. */
TEST(nothing_that_lay_where_the_outcome_is_stays_in_it)
{
    char text[] = "lost";
    stint_outcome outcome;
    memset(&outcome, 0x5a, sizeof outcome);
    assert_int_equal(stint_run(fail_with_value, text, NULL, &outcome), 0);
    assert_nothing_left_of(&outcome, 0x5a);

    stint_pool *pool;
    stint_future *future;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    assert_int_equal(stint_submit(pool, fail_with_value, text, NULL, &future), 0);
    memset(&outcome, 0x5a, sizeof outcome);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_nothing_left_of(&outcome, 0x5a);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int note_value(void *arg, void **value)
{
    *(bool *)arg = *value == NULL;
    return 0;
}

TEST(the_value_is_null_until_the_task_sets_it)
{
    bool was_null = false;
    stint_outcome outcome = run_task(note_value, &was_null, NULL);
    assert_ok(outcome);
    assert_null(outcome.value);
    assert_true(was_null);
}

static int count_calls(void *arg, void **value)
{
    (void)value;
    ++*(int *)arg;
    return 0;
}

TEST(bad_arguments_are_refused_before_the_function_is_called)
{
    int calls = 0;
    stint_outcome outcome;
    stint_outcome before;
    memset(&outcome, 0x5a, sizeof outcome);
    memcpy(&before, &outcome, sizeof outcome);
    assert_int_equal(stint_run(NULL, &calls, NULL, &outcome), EINVAL);
    assert_int_equal(stint_run(count_calls, &calls, NULL, NULL), EINVAL);
    for (int mode = -1; mode <= 1000; mode += 1001 / 7) {
        if (mode == STINT_JUMP || mode == STINT_FAIL)
            continue;
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = (stint_on_interrupt)mode;
        assert_int_equal(stint_run(count_calls, &calls, &options, &outcome), EINVAL);
    }
    assert_int_equal(calls, 0);
    assert_memory_equal(&outcome, &before, sizeof outcome);
}

TEST(statuses_and_reasons_have_names)
{
    assert_string_equal(stint_status_name(STINT_OK), "ok");
    assert_string_equal(stint_status_name(STINT_ERROR), "error");
    assert_string_equal(stint_status_name(STINT_CANCELLED), "cancelled");
    assert_string_equal(stint_status_name((stint_status)99), "unknown");
    static const char *const reasons[] = { "none",
                                           "failed",
                                           "allocation-limit",
                                           "memory-limit",
                                           "deadline",
                                           "account",
                                           "global-memory-limit",
                                           "token",
                                           "shutdown",
                                           "outer",
                                           "tracker",
                                           "cpu",
                                           "expired",
                                           "exception",
                                           "stack",
                                           "crash",
                                           "exit",
                                           "killed",
                                           "broken" };
    for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        assert_string_equal(stint_reason_name((stint_reason)i), reasons[i]);
    assert_string_equal(stint_reason_name((stint_reason)99), "unknown");
}

static int allocate_some(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(100)));
    void *block = keep(stint_malloc(MIB));
    stint_mask();
    stint_unmask();
    stint_free(block);
    return 0;
}

TEST(usage_is_measured)
{
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    stint_outcome outcome = run_task(allocate_some, NULL, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t around =
        (uint64_t)(end.tv_sec - begin.tv_sec) * UINT64_C(1000000000) + (uint64_t)end.tv_nsec - (uint64_t)begin.tv_nsec;
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 100 * 112 + MIB);
    assert_in_range(outcome.usage.samples, 1, 20);
    assert_int_equal(outcome.usage.deferred, 0);
    assert_int_equal(outcome.usage.queued_ns, 0);
    assert_in_range(outcome.usage.wall_ns, 1, around);
    assert_true(outcome.usage.peak <= MIB + 64 * KIB);
}

static int ask_for_usage(void *arg, void **value)
{
    (void)value;
    usleep(1000);
    return stint_usage_now(arg, NULL);
}

TEST(no_clock_is_read_for_a_task_that_is_untimed_and_has_no_limit_of_time)
{
    stint_options options = { .size = sizeof(stint_options), .flags = STINT_UNTIMED };
    stint_usage inside;
    stint_outcome outcome = run_task(ask_for_usage, &inside, &options);
    assert_ok(outcome);
    assert_int_equal(inside.wall_ns, 0);
    assert_int_equal(outcome.usage.wall_ns, 0);

    options.budget.wall_ns = UINT64_C(3600000000000);
    outcome = run_task(ask_for_usage, &inside, &options);
    assert_ok(outcome);
    assert_true(inside.wall_ns >= 1000000);
    assert_true(outcome.usage.wall_ns >= inside.wall_ns);
}

static int run_untimed_until_the_deadline(void *arg, void **value)
{
    (void)value;
    stint_options options = { .size = sizeof(stint_options), .flags = STINT_UNTIMED };
    stint_outcome outcome;
    int error = 0;
    while (error == 0)
        error = stint_run(count_calls, arg, &options, &outcome);
    return error;
}

TEST(an_untimed_scope_does_not_hold_up_the_deadline_of_the_one_around_it)
{
    stint_options options = { .size = sizeof(stint_options), .budget.wall_ns = 2000000 };
    int calls = 0;
    stint_outcome outcome = run_task(run_untimed_until_the_deadline, &calls, &options);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_true(calls > 0);
}

static int hold_some(void *arg, void **value)
{
    (void)value;
    size_t size = *(size_t *)arg;
    for (size_t held = 0; held < size; held += KIB)
        keep(stint_malloc(KIB));
    return 1;
}

TEST(what_a_task_holds_at_its_end_is_its_peak_exactly_where_that_is_most)
{
    for (size_t size = KIB; size <= 64 * MIB; size *= 2) {
        stint_outcome outcome = run_task(hold_some, &size, NULL);
        assert_int_equal(outcome.usage.peak, size);
    }
}

struct wave {
    size_t calm; /* allocated one after the other before it */
    size_t size;
};

static int hold_for_a_while(void *arg, void **value)
{
    (void)value;
    const struct wave *wave = arg;
    for (size_t allocated = 0; allocated < wave->calm; allocated += KIB)
        stint_free(keep(stint_malloc(KIB)));
    void **newest = NULL;
    for (size_t held = 0; held < wave->size; held += KIB) {
        void **block = keep(stint_malloc(KIB));
        *block = newest;
        newest = block;
    }
    while (newest != NULL) {
        void **block = newest;
        newest = *block;
        stint_free(block);
    }
    return 0;
}

#define YOUNG (36 * KIB) /* the first small blocks count as allocated, even if freed */

TEST(a_peak_that_is_over_before_the_end_is_seen_as_exactly)
{
    for (size_t calm = 0; calm <= 64 * MIB; calm = calm == 0 ? 64 * KIB : 8 * calm) {
        for (size_t size = KIB; size <= 64 * MIB; size *= 2) {
            struct wave wave = { calm, size };
            stint_outcome outcome = run_task(hold_for_a_while, &wave, NULL);
            assert_ok(outcome);
            assert_true(outcome.usage.peak <= size + YOUNG);
            assert_true(most_behind(&outcome.usage) >= size);
        }
    }
}

/* What it holds is measured again long after that. */
static int hold_much_then_go_on(void *arg, void **value)
{
    (void)arg;
    (void)value;
    enum { BLOCKS = 64 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = keep(stint_malloc(64 * KIB));
    for (int i = 0; i < BLOCKS; i++)
        stint_free(blocks[i]);
    for (int i = 0; i < 10000; i++)
        stint_free(keep(stint_malloc(10 * KIB)));
    return 0;
}

TEST(a_peak_stays_the_peak_however_long_the_task_goes_on)
{
    stint_outcome outcome = run_task(hold_much_then_go_on, NULL, NULL);
    assert_ok(outcome);
    assert_true(most_behind(&outcome.usage) >= 4 * MIB);
    assert_true(outcome.usage.peak <= 5 * MIB);
}

TEST(a_task_that_allocates_nothing_uses_nothing)
{
    int calls = 0;
    stint_outcome outcome = run_task(count_calls, &calls, NULL);
    assert_ok(outcome);
    assert_int_equal(calls, 1);
    assert_int_equal(outcome.usage.allocated, 0);
    assert_int_equal(outcome.usage.peak, 0);
    assert_int_equal(outcome.usage.samples, 0);
}

TEST(outside_a_scope_the_calls_of_a_task_do_nothing)
{
    stint_checkpoint();
    stint_mask();
    stint_unmask();
    stint_unmask();
    assert_false(stint_is_interrupted());
    void *block = stint_malloc(64 * MIB);
    assert_non_null(block);
    stint_free(block);
}

static int pass_the_limit(void *arg, void **value)
{
    (void)value;
    ++*(int *)arg;
    while (keep(stint_malloc(1000)) != NULL)
        ;
    return 0;
}

static int unmask_too_often(void *arg, void **value)
{
    for (int i = 0; i < 3; i++)
        stint_unmask();
    int error = pass_the_limit(arg, value);
    *(int *)arg = -1;
    return error;
}

TEST(an_unmask_without_a_mask_changes_nothing)
{
    int calls = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 64 * KIB;
    assert_limit_passed(run_task(unmask_too_often, &calls, &options));
    assert_int_not_equal(calls, -1);
}

TEST(an_interrupted_scope_leaves_the_thread_as_it_was)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 64 * KIB;
    for (unsigned round = repeats(1000); round > 0; round--) {
        int calls = 0;
        assert_limit_passed(run_task(pass_the_limit, &calls, &options));
        assert_int_equal(calls, 1);
        assert_false(stint_is_interrupted());
        void *block = stint_malloc(128 * KIB);
        assert_non_null(block);
        stint_free(block);
        char text[] = "next";
        stint_outcome next = run_task(leave_value, text, &options);
        assert_ok(next);
        assert_int_equal(next.usage.allocated, 16);
        stint_free(next.value);
    }
}

static void *run_many(void *wrong)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 64 * KIB;
    for (unsigned round = repeats(200); round > 0; round--) {
        stint_outcome outcome;
        int calls = 0;
        char text[] = "many";
        if (stint_run(pass_the_limit, &calls, &options, &outcome) != 0 ||
            outcome.reason != STINT_REASON_ALLOCATION_LIMIT || outcome.usage.allocated > 64 * KIB)
            return wrong;
        if (stint_run(leave_value, text, &options, &outcome) != 0 || outcome.status != STINT_OK)
            return wrong;
        stint_free(outcome.value);
    }
    return NULL;
}

TEST(scopes_of_many_threads_know_nothing_of_each_other)
{
    pthread_t threads[8];
    int wrong;
    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_many, &wrong), 0);
        for (unsigned i = 0; i < 8; i++) {
            void *result = &wrong;
            assert_int_equal(pthread_join(threads[i], &result), 0);
            assert_null(result);
        }
    }
}

TEST_MAIN()
